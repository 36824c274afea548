import TestKit
import TestTraits
import Testing

@testable import Kafka

/// librdkafka's mock broker does not support TLS; `openssl s_server` does, and prints the client's certificate.
@Suite(.timeLimit(.minutes(1))) struct KafkaTLSTests {
    @Test(.server) func thePropertiesFileMakesTheClientShowItsCertificate() async throws {
        let directory = try TemporaryDirectory("kafka-tls")
        try await self.makeCertificates(in: directory)
        let reserved = try ReservedPort()
        defer { reserved.release() }

        let port = reserved.number
        let server = try ChildProcess(
            "openssl",
            [
                "s_server", "-accept", "127.0.0.1:\(port)", "-cert", directory.path("server.pem"), "-key",
                directory.path("server.key"), "-CAfile", directory.path("ca.pem"), "-Verify", "1",
                "-verify_return_error", "-www",
            ])
        try await server.line(containing: "ACCEPT")
        let file = try directory.write(
            "kafka.properties",
            """
            security.protocol = ssl
            ssl.ca.location = \(directory.path("ca.pem"))
            ssl.certificate.location = \(directory.path("client.pem"))
            ssl.key.location = \(directory.path("client.key"))

            """)
        let properties = try KafkaConfiguration.properties(file: file)
        let producer = try KafkaProducer(KafkaConfiguration(bootstrap: "localhost:\(port)", properties: properties))
        try await server.line(containing: "the-kafka-client")
        await producer.close()
        await server.stop()
    }

    @Test(arguments: ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
    func aFileThatIsNotThereIsNamedWithItsProperty(property: String) {
        let properties = ["security.protocol": "ssl", property: "/nonexistent/file.pem"]
        do {
            _ = try KafkaProducer(KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: properties))
            Issue.record("accepted")
        } catch {
            #expect(error.code == .configuration)
            #expect(error.message.contains(property), "\(error.message)")
        }
    }

    private func makeCertificates(in directory: TemporaryDirectory) async throws {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        try await ChildProcess.run(
            "openssl",
            ["req", "-x509"] + key + [
                "-days", "2", "-subj", "/CN=ca", "-keyout", directory.path("ca.key"), "-out", directory.path("ca.pem"),
            ])
        for (name, subject) in [("server", "localhost"), ("client", "the-kafka-client")] {
            try directory.write("\(name).ext", "subjectAltName=DNS:\(subject)\n")
            try await ChildProcess.run(
                "openssl",
                ["req"] + key + [
                    "-subj", "/CN=\(subject)", "-keyout", directory.path("\(name).key"), "-out",
                    directory.path("\(name).csr"),
                ])
            try await ChildProcess.run(
                "openssl",
                [
                    "x509", "-req", "-in", directory.path("\(name).csr"), "-CA", directory.path("ca.pem"), "-CAkey",
                    directory.path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile",
                    directory.path("\(name).ext"), "-out", directory.path("\(name).pem"),
                ])
        }
    }
}
