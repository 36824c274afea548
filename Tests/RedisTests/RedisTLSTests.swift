import TestKit
import TestTraits
import Testing

@testable import Redis

@Suite(.server) struct RedisTLSTests {
    @Test func tlsVerifiesTheServersNameAndChain() async throws {
        let directory = try TemporaryDirectory("redis-tls")
        try await makeAuthority("ca", in: directory)
        try await makeAuthority("other", in: directory)
        let options = { (port: Int, name: String) in
            [
                "--tls-port", "\(port)", "--tls-cert-file", directory.path("\(name).pem"), "--tls-key-file",
                directory.path("\(name).key"), "--tls-ca-cert-file", directory.path("ca.pem"), "--tls-auth-clients",
                "no",
            ]
        }
        for (name, host, ca, isTrusted) in [
            ("localhost", "localhost", "ca", true), ("localhost", "localhost", "other", false),
            ("elsewhere", "localhost", "ca", false), ("address", "127.0.0.1", "ca", true),
            ("localhost", "127.0.0.1", "ca", false), ("address", "localhost", "ca", false),
        ] {
            try await makeServerCertificate(name, in: directory)
            let reserved = try ReservedPort()
            let port = reserved.number
            let server = try await RedisServer.startAlone(options(port, name), keeping: [reserved])
            var configuration = try RedisConfiguration(
                url: "rediss://\(host):\(port)", caFile: directory.path("\(ca).pem"))
            configuration.commandDeadline = .seconds(isTrusted ? 5 : 1)
            try await withClient(configuration) { client in
                let failure = await code { () throws(RedisError) in
                    let value = [UInt8](repeating: 7, count: 100_000)
                    _ = try await client.send(RedisCommand("SET", "k", .bytes(value)))
                    let answer = try await client.send(RedisCommand("GET", "k"))
                    #expect(answer.bytes == value)
                }
                #expect(failure == (isTrusted ? nil : .connection), "\(name) at \(host) under \(ca)")
            }
            await server.stop()
        }
    }

    private func makeAuthority(_ name: String, in directory: TemporaryDirectory) async throws {
        try await ChildProcess.run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=\(name)", "-keyout", directory.path("\(name).key"), "-out", directory.path("\(name).pem"),
            ])
    }

    private func makeServerCertificate(_ name: String, in directory: TemporaryDirectory) async throws {
        let alternative = name == "address" ? "IP:127.0.0.1" : "DNS:\(name)"
        try directory.write("\(name).ext", "subjectAltName=\(alternative)\n")
        try await ChildProcess.run(
            "openssl",
            [
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=\(name)",
                "-keyout", directory.path("\(name).key"), "-out", directory.path("\(name).csr"),
            ])
        try await ChildProcess.run(
            "openssl",
            [
                "x509", "-req", "-in", directory.path("\(name).csr"), "-CA", directory.path("ca.pem"), "-CAkey",
                directory.path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", directory.path("\(name).ext"),
                "-out", directory.path("\(name).pem"),
            ])
    }
}
