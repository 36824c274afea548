import Model
import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// The client against nghttp2's own server, which shares no code with the scripted one.
    @Suite(.server) struct NghttpdTests {
        @Test func nghttpdTakesAThousandNotificationsOnOneConnection() async throws {
            try await Nghttpd.run { server in
                try await server.start(["-v"])
                let outcomes = await server.client.send(try makeNotifications(1_000))
                await server.client.close()
                let log = await server.stop()
                #expect(outcomes.map(\.status) == (0..<1_000).map { $0 < 500 ? 200 : 404 })
                #expect(log.contains("apns-push-type: background"))
                #expect(log.contains("content-length"))
            }
        }

        @Test(arguments: [(1, 500), (100, 20_000)])
        func nghttpdsLimitIsKept(_ streams: Int, _ count: Int) async throws {
            try await Nghttpd.run { server in
                try await server.start(["-m", "\(streams)"])
                let outcomes = await server.client.send(try makeNotifications(count))
                #expect(outcomes.map(\.status) == (0..<count).map { $0 < 500 ? 200 : 404 })
            }
        }

        @Test func aRestartOfNghttpdLosesNoOutcomeAndTheClientReconnects() async throws {
            try await Nghttpd.run { server in
                try await server.start([])
                let client = server.client
                let notifications = try makeNotifications(20_000)
                async let sent = client.send(notifications)
                _ = await client.send(try makeNotifications(1))
                await server.stop()
                try await server.start([])
                // Each request has one outcome; requests in flight when the server stopped have no status.
                let outcomes = await sent
                #expect(outcomes.count == 20_000)
                #expect(outcomes.enumerated().allSatisfy { $1.status == nil || $1.status == ($0 < 500 ? 200 : 404) })
                try await eventually("nghttpd is found again") {
                    await client.send(try makeNotifications(100)).allSatisfy { $0.status == 200 }
                }
            }
        }
    }
}

/// nghttpd on its own port, knowing 500 device tokens, and a client for it.
private final class Nghttpd {
    let client: APNSClient
    private let directory: TemporaryDirectory
    private let port: ReservedPort
    private let arguments: [String]
    private var process: ChildProcess?

    private init() async throws {
        self.directory = try TemporaryDirectory("nghttpd")
        self.port = try ReservedPort()
        let certificates = try Certificates.shared.get()
        let key = try self.directory.write("key.pem", certificates.serverKey)
        let certificate = try self.directory.write("certificate.pem", certificates.server)
        // A POST to a file's path is answered with 200 and the file.
        try await ChildProcess.run("mkdir", ["-p", self.directory.path("root/3/device")])
        for notification in try makeNotifications(500) {
            try self.directory.write("root/3/device/\(notification.deviceToken.rawValue)", "")
        }
        self.arguments = [
            "-a", "127.0.0.1", "-d", self.directory.path("root"), "\(self.port.number)", key, certificate,
        ]
        self.client = try APNSClient(
            endpoint: try APNSEndpoint(url: "https://localhost:\(self.port.number)"),
            credential: .certificate(chainPEM: certificates.client, keyPEM: certificates.clientKey),
            rootsPEM: certificates.root, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            configuration: quickConfiguration())
    }

    /// Starts the server and waits until it accepts connections, which it does not report without `-v`.
    func start(_ options: [String]) async throws {
        self.process = try ChildProcess("nghttpd", options + self.arguments)
        let deadline = ContinuousClock.now + .seconds(20)
        while true {
            if let connection = try? await RawConnection.open(port: self.port.number) {
                return await connection.close()
            }
            try #require(ContinuousClock.now < deadline, "nghttpd does not accept: \(self.process?.output ?? "")")
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// Ends the server and returns its output.
    @discardableResult
    func stop() async -> String {
        await self.process?.stop()
        return self.process?.output ?? ""
    }

    /// Runs a test, then closes client and server even if it throws.
    static func run(_ body: (Nghttpd) async throws -> Void) async throws {
        let server = try await Nghttpd()
        let result: Result<Void, any Error>
        do { result = .success(try await body(server)) } catch { result = .failure(error) }
        await server.client.close()
        await server.stop()
        server.port.release()
        try result.get()
    }
}
