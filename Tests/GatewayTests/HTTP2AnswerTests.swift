import Logging
import NIOHPACK
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import HTTPServer

/// Wallet's requests over HTTP/2.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct HTTP2AnswerTests {
    typealias Fixture = GatewayFixture
    typealias Wire = HTTP2Wire

    @Test func requestsAreAnsweredAsOnHTTP1() async throws {
        try await Fixture.with(try Self.options()) { fixture in
            try await fixture.put("1")
            try await Self.http2(fixture) { wire in
                let path = fixture.package("1")
                let package = try await wire.exchange(1, Wire.fields("GET", path, token: Fixture.ownToken))
                #expect(package.status == 200)
                #expect(package.body == Fixture.package)
                #expect(package.headers.first(name: "content-length") == String(Fixture.package.count))
                #expect(package.headers.first(name: "etag") == "\"tag-1\"")
                #expect(package.headers.first(name: "date")?.hasSuffix(" GMT") == true)
                #expect(!package.headers.contains(name: "connection"))
                let head = try await wire.exchange(3, Wire.fields("HEAD", path, token: Fixture.ownToken))
                #expect(head.status == 200)
                #expect(head.body.isEmpty)
                #expect(head.headers.first(name: "content-length") == String(Fixture.package.count))
                let same = try await wire.exchange(
                    5, Wire.fields("GET", path, token: Fixture.ownToken, [("if-none-match", "\"tag-1\"")]))
                #expect(same.status == 304)
                #expect(same.body.isEmpty)
                #expect(!same.headers.contains(name: "content-length"))
                #expect(try await wire.exchange(7, Wire.fields("GET", path)).status == 401)
                #expect(
                    try await wire.exchange(9, Wire.fields("PUT", path)).headers.first(name: "allow") == "GET, HEAD")
                #expect(
                    try await wire.exchange(11, Wire.fields("POST", "/v1/log"), body: Array("[\"a\"]".utf8)).status
                        == 200)
                #expect(try await wire.exchange(13, Wire.fields("GET", "/nothing")).status == 404)
                let device = fixture.registration("device", "1")
                let token = Array(#"{"pushToken":"aa"}"#.utf8)
                #expect(
                    try await wire.exchange(15, Wire.fields("POST", device, token: Fixture.ownToken), body: token)
                        .status
                        == 201)
                #expect(try await wire.exchange(17, Wire.fields("GET", fixture.list("device"))).text.contains("\"1\""))
                #expect(wire.announced[3] == 100)
                #expect(wire.announced[6] == 16_384)
                #expect(wire.announced[4] == 65_536)
            }
        }
    }

    /// Returns the options of a gateway with TLS.
    private static func options() throws -> Fixture.Options {
        let certificates = try TLSSupport.made.get().first
        let files = TLSFiles(certificate: certificates.serverCertificate, key: certificates.serverKey)
        let certificate = try files.load(nowEpochSeconds: TLSSupport.now)
        var options = Fixture.Options()
        options.edge = { edge in
            edge.certificates = CertificateReload(
                files: files, certificate: certificate, metrics: edge.metrics,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        }
        return options
    }

    /// Opens an HTTP/2 connection for `body` and closes it.
    private static func http2(_ fixture: Fixture, _ body: (HTTP2Wire) async throws -> Void) async throws {
        let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client(["h2"]))
        do {
            let wire = HTTP2Wire(connection)
            try await wire.start()
            try await body(wire)
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }
}
