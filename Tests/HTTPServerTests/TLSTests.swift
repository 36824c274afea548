import Foundation
import Logging
import NIOCore
import NIOPosix
import NIOSSL
import Operations
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// TLS as seen by `curl`, `openssl`, `h2load` and malicious clients.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct TLSTests {
    typealias Fixture = ServerFixture

    /// Runs a program on a thread that may block.
    func run(_ name: String, _ arguments: [String]) async throws -> String {
        try await NIOThreadPool.singleton.runIfActive { try Program.run(name, arguments) }
    }

    @Test func curlFetchesOverBothVersions() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            let url = "https://localhost:\(fixture.port)\(fixture.package("1"))"
            let root = try TLSSupport.made.get().first.root
            for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
                let told = try await self.run(
                    "curl",
                    [
                        "-sS", option, "--cacert", root, "-H", "Authorization: AppleOrder \(Fixture.ownToken)", "-o",
                        "/dev/null", "-w",
                        "%{http_version} %{response_code} %{size_download}", "--resolve",
                        "localhost:\(fixture.port):127.0.0.1", url,
                    ])
                #expect(told == "\(version) 200 \(Fixture.package.count)")
            }
        }
    }

    @Test func h2loadGetsEveryAnswer() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            let said = try await self.run(
                "h2load",
                [
                    "-n", "2000", "-c", "4", "-m", "50", "-H", "Authorization: AppleOrder \(Fixture.ownToken)", "-H",
                    "If-None-Match: \"tag-1\"", "https://127.0.0.1:\(fixture.port)\(fixture.package("1"))",
                ])
            #expect(said.contains("2000 succeeded, 0 failed, 0 errored"), "\(said)")
            #expect(said.contains("2000 3xx"))
        }
    }

    @Test func aClientWithoutALPNSpeaksHTTP1() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            for protocols in [[], ["http/1.1"], ["spdy/3"]] {
                let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client(protocols))
                let request = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
                #expect(try await connection.exchange(request).body == Fixture.package)
                #expect(try await connection.exchange(request).body == Fixture.package)
                await connection.close()
            }
        }
    }

    @Test func oldVersionsAndOtherProtocolsAreRefused() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            await #expect(throws: (any Error).self) {
                let old = try await RawConnection.open(
                    port: fixture.port, tls: TLSSupport.client([], versions: 11...11))
                _ = try await old.exchange(fixture.request("GET", "/nothing"))
            }
            for junk in [
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                String(repeating: "x", count: 100_000),
            ] {
                let plain = try await RawConnection.open(port: fixture.port)
                try? await plain.send(junk)
                let deadline = ContinuousClock.now + .seconds(10)
                while !plain.hasEnded, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
                #expect(plain.hasEnded)
                await plain.close()
            }
            let modern = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client([]))
            #expect(try await modern.exchange(fixture.request("GET", "/nothing")).status == 404)
            await modern.close()
            #expect(!fixture.metricsText.contains("waybill_tls_handshakes_failed_total 0\n"))
        }
    }

    @Test func onlyAuthenticatedEncryptionIsAgreedUpon() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            func connect(_ arguments: [String]) async throws -> String {
                let common = ["s_client", "-brief", "-connect", "127.0.0.1:\(fixture.port)"]
                return try await self.run("openssl", common + arguments)
            }
            for suite in [
                "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
            ] {
                let said = try await connect(["-tls1_2", "-cipher", suite])
                #expect(said.contains("Ciphersuite: \(suite)"), "\(said)")
            }
            // The CBC suites that the library itself would accept.
            for suite in ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA"] {
                await #expect(throws: ProgramError.self, "\(suite)") {
                    _ = try await connect(["-tls1_2", "-cipher", "\(suite)@SECLEVEL=0"])
                }
            }
            #expect(try await connect(["-tls1_3"]).contains("Protocol version: TLSv1.3"))
        }
    }

    @Test func aHandshakeThatIsNotFinishedIsGivenUpInTime() async throws {
        let options = try TLSSupport.options { $0.handshakeLimit = .milliseconds(300) }
        try await Fixture.with(options) { fixture in
            let silent = try await RawConnection.open(port: fixture.port)
            // The start of a ClientHello, the rest of which never arrives. Source: RFC 8446 §5.1
            let slow = try await RawConnection.open(port: fixture.port)
            try await slow.send([0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC])
            #expect(try await silent.isClosedByServer())
            #expect(try await slow.isClosedByServer())
            #expect(fixture.metricsText.contains("waybill_tls_handshakes_failed_total 2\n"))
            await silent.close()
            await slow.close()
        }
    }

    @Test func slowAndMalformedRequestsAreRefusedInsideTLSToo() async throws {
        try await Fixture.with(try TLSSupport.options(requestLimit: .milliseconds(1500))) { fixture in
            for (request, status) in [("GET / HTTP/1.1\r\nHo", 408), ("GET / HTTP/1.1\r\nA : b\r\n\r\n", 400)] {
                let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client([]))
                #expect(try await connection.exchange(request).status == status)
                #expect(try await connection.isClosedByServer())
                await connection.close()
            }
        }
    }
}

/// Certificates that are replaced while the gateway runs.
@Suite(.serialized, .timeLimit(.minutes(2))) struct TLSReloadTests {
    typealias Fixture = ServerFixture

    /// Certificate files that a test replaces, and the settings that name them.
    struct Served {
        let directory: TemporaryDirectory
        let files: TLSFiles

        init() throws {
            self.directory = try TemporaryDirectory("served")
            self.files = TLSFiles(certificate: directory.path("certificate.pem"), key: directory.path("key.pem"))
        }

        /// Replaces the files as tools do: writes new ones and moves them into place.
        func put(_ certificates: DevelopmentCertificates?, key: DevelopmentCertificates?) throws {
            for (source, target) in [
                (certificates?.serverCertificate, self.files.certificate), (key?.serverKey, self.files.key),
            ] {
                let content = try source.map { try Data(contentsOf: URL(filePath: $0)) } ?? Data("broken".utf8)
                try content.write(to: URL(filePath: target), options: .atomic)
            }
        }
    }

    /// Returns the serial number of the certificate that a new connection receives.
    func serial(_ fixture: Fixture) async throws -> String {
        try await NIOThreadPool.singleton.runIfActive {
            let script =
                "openssl s_client -connect 127.0.0.1:\(fixture.port) </dev/null 2>/dev/null | openssl x509 -noout -serial"
            return try Program.run("sh", ["-c", script])
        }
    }

    func serial(_ certificates: DevelopmentCertificates) async throws -> String {
        try await NIOThreadPool.singleton.runIfActive {
            try Program.run("openssl", ["x509", "-noout", "-serial", "-in", certificates.serverCertificate])
        }
    }

    @Test(.server) func aReloadedCertificateAppliesToNewConnectionsOnly() async throws {
        let made = try TLSSupport.made.get()
        let served = try Served()
        try served.put(made.first, key: made.first)
        let certificate = try served.files.load(nowEpochSeconds: TLSSupport.now)
        let registry = MetricsRegistry()
        let reload = CertificateReload(
            files: served.files, certificate: certificate, metrics: TransportMetrics(factory: registry),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        @Sendable func look() async { for _ in 0..<2 { await reload.look(isAsked: false) } }
        var options = Fixture.Options()
        options.edge = { $0.certificates = reload }
        try await Fixture.with(options) { fixture in
            await look()
            let (first, second) = (try await self.serial(made.first), try await self.serial(made.second))
            #expect(first != second)
            #expect(try await self.serial(fixture) == first)
            try await fixture.http2 { wire in
                #expect(try await wire.exchange(1, HTTP2Wire.fields("GET", "/nothing")).status == 404)
                try served.put(made.second, key: made.second)
                await look()
                #expect(try await self.serial(fixture) == second)
                #expect(
                    try await wire.exchange(3, HTTP2Wire.fields("GET", "/nothing")).status == 404, "the old one goes on"
                )
            }
            // The last good certificate stays despite a wrong key, an invalid certificate or a missing file.
            try served.put(made.first, key: made.second)
            await look()
            try served.put(nil, key: made.first)
            await look()
            try FileManager.default.removeItem(atPath: served.files.certificate)
            await look()
            #expect(try await self.serial(fixture) == second)
            #expect(registry.text.contains("waybill_tls_certificate_reloads_total{outcome=\"refused\"} 3\n"))
            #expect(registry.text.contains("waybill_reload_ok{file=\"tls\"} 0.0"))
            try served.put(made.first, key: made.first)
            await reload.look(isAsked: true)
            #expect(try await self.serial(fixture) == first, "at once when asked")
            let expiry = "waybill_certificate_expiry_timestamp_seconds{owner=\"gateway\",certificate=\"tls\"}"
            let end =
                registry.text.split(separator: "\n").first { $0.hasPrefix(expiry) }
                .flatMap { $0.split(separator: " ").last }.flatMap { Double($0) } ?? 0
            #expect((3640...3650).contains((end - Double(TLSSupport.now)) / 86_400), "ten years")
            #expect(registry.text.contains("waybill_reload_ok{file=\"tls\"} 1.0"))
        }
    }

    @Test func aServerWithoutTLSHasNoCertificateThatEnds() {
        let registry = MetricsRegistry()
        let metrics = TransportMetrics(factory: registry)
        #expect(!registry.text.contains("waybill_certificate_expiry"))
        metrics.certificateEnds(epochSeconds: 4_000_000_000)
        #expect(registry.text.contains("owner=\"gateway\",certificate=\"tls\"} 4000000000.0\n"))
    }

    @Test func theReloadServicePollsUntilItsTaskIsCancelled() async throws {
        let made = try TLSSupport.made.get()
        let served = try Served()
        try served.put(made.first, key: made.first)
        let certificate = try served.files.load(nowEpochSeconds: TLSSupport.now)
        let registry = MetricsRegistry()
        let reload = CertificateReload(
            files: served.files, certificate: certificate, interval: .milliseconds(20),
            metrics: TransportMetrics(factory: registry),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await reload.run() }
            let loaded = "waybill_tls_certificate_reloads_total{outcome=\"loaded\"}"
            let deadline = ContinuousClock.now + .seconds(20)
            while !registry.text.contains("\(loaded) 1\n") {
                try #require(ContinuousClock.now < deadline)
                try await Task.sleep(for: .milliseconds(5))
            }
            try served.put(made.second, key: made.second)
            while !registry.text.contains("\(loaded) 2\n") {
                try #require(ContinuousClock.now < deadline)
                try await Task.sleep(for: .milliseconds(5))
            }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test func filesThatCannotBeServedAreRefusedWithTheReason() throws {
        let made = try TLSSupport.made.get()
        let (first, second) = (made.first, made.second)
        let now = TLSSupport.now
        let wrong: [(TLSFiles, Int64, TLSFiles.Part, String)] = [
            (TLSFiles(certificate: "/none", key: first.serverKey), now, .certificate, "cannot be read"),
            (TLSFiles(certificate: first.serverCertificate, key: "/none"), now, .key, "cannot be read"),
            (TLSFiles(certificate: first.serverKey, key: first.serverKey), now, .certificate, "no certificate"),
            (TLSFiles(certificate: first.serverCertificate, key: first.serverCertificate), now, .key, "not a PEM key"),
            (TLSFiles(certificate: first.serverCertificate, key: second.serverKey), now, .key, "does not belong"),
            (TLSFiles(certificate: first.serverCertificate, key: first.serverKey), 0, .certificate, "not valid yet"),
            (
                TLSFiles(certificate: first.serverCertificate, key: first.serverKey), 9_000_000_000, .certificate,
                "expired"
            ),
        ]
        for (files, moment, part, reason) in wrong {
            let error = #expect(throws: TLSFilesError.self) { _ = try files.load(nowEpochSeconds: moment) }
            #expect(error?.part == part, "\(reason)")
            #expect(error?.problem.contains(reason) == true, "\(reason)")
        }
    }
}

@Suite struct TLSSettingsTests {
    func settings(_ values: [String: String]) throws(SettingsError) -> TransportSettings {
        try TransportSettings(try Settings(environment: values))
    }

    @Test func withoutKeysThereIsPlainHTTPAndDefaults() throws {
        let settings = try self.settings([:])
        #expect(settings.tls == nil)
        #expect(settings.proxies == .none)
        #expect(settings.limits.total == 20_000)
        #expect(settings.limits.perAddress == 1_000)
    }

    @Test func theFilesAreReadAtTheStart() throws {
        let made = try TLSSupport.made.get().first
        let settings = try self.settings([
            "WAYBILL_TLS_CERTIFICATE": made.serverCertificate, "WAYBILL_TLS_KEY": made.serverKey,
            "WAYBILL_CONNECTION_LIMIT": "7", "WAYBILL_CONNECTION_LIMIT_PER_ADDRESS": "3",
            "WAYBILL_TRUSTED_PROXIES": "10.0.0.0/8",
        ])
        #expect(settings.tls?.files.key == made.serverKey)
        #expect(settings.limits.total == 7)
        #expect(settings.limits.perAddress == 3)
        #expect(settings.proxies != .none)
    }

    @Test func aWrongValueStopsTheStartWithKeyAndReason() throws {
        let made = try TLSSupport.made.get().first
        let other = try TLSSupport.made.get().second
        let wrong: [([String: String], String)] = [
            (["WAYBILL_TLS_CERTIFICATE": made.serverCertificate], "must be set together with WAYBILL_TLS_KEY"),
            (["WAYBILL_TLS_KEY": made.serverKey], "must be set together with WAYBILL_TLS_CERTIFICATE"),
            (
                ["WAYBILL_TLS_CERTIFICATE": made.serverCertificate, "WAYBILL_TLS_KEY": other.serverKey],
                "WAYBILL_TLS_KEY="
            ),
            (["WAYBILL_TLS_CERTIFICATE": "/none", "WAYBILL_TLS_KEY": made.serverKey], "WAYBILL_TLS_CERTIFICATE=/none"),
            (["WAYBILL_CONNECTION_LIMIT": "0"], "WAYBILL_CONNECTION_LIMIT=0"),
            (["WAYBILL_CONNECTION_LIMIT_PER_ADDRESS": "x"], "WAYBILL_CONNECTION_LIMIT_PER_ADDRESS=x"),
            (["WAYBILL_TRUSTED_PROXIES": "10.0.0.0/40"], "WAYBILL_TRUSTED_PROXIES=10.0.0.0/40"),
        ]
        for (values, reason) in wrong {
            let error = #expect(throws: SettingsError.self) { _ = try self.settings(values) }
            #expect(error?.description.contains(reason) == true, "\(error?.description ?? "none")")
        }
    }
}
