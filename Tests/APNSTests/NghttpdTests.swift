import Model
import NIOCore
import NIOPosix
import TestKit
import Testing

@testable import APNS

extension WireTests {
    /// The client against nghttp2's own server, which shares no code with the scripted one.
    @Suite struct NghttpdTests {
        @Test func nghttpdTakesAThousandNotificationsOnOneConnection() async throws {
            let directory = try TemporaryDirectory("nghttpd")
            let certificates = try Certificates.shared.get()
            let key = try directory.write("key.pem", certificates.serverKey)
            let certificate = try directory.write("certificate.pem", certificates.server)
            // A POST to a file's path is answered with 200 and the file.
            let notifications = try makeNotifications(1_000)
            let folder = directory.path("root/3/device")
            try await ChildProcess.run("mkdir", ["-p", folder])
            for notification in notifications.prefix(500) {
                try directory.write("root/3/device/\(notification.deviceToken.rawValue)", "")
            }
            let port = try await freePort()
            let server = try ChildProcess(
                "nghttpd", ["-v", "-a", "127.0.0.1", "-d", directory.path("root"), "\(port)", key, certificate])
            try await server.line(containing: "listen 127.0.0.1:\(port)")
            let client = try APNSClient(
                endpoint: try APNSEndpoint(url: "https://localhost:\(port)"),
                credential: .certificate(chainPEM: certificates.client, keyPEM: certificates.clientKey),
                rootsPEM: certificates.root, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                configuration: quickConfiguration())
            let outcomes = await client.send(notifications)
            await client.close()
            await server.stop()
            #expect(outcomes.map(\.status) == (0..<1_000).map { $0 < 500 ? 200 : 404 })
            let log = server.output
            #expect(log.contains("apns-push-type: background") && log.contains("content-length") == true)
            #expect(!log.contains("[id=2]"), "one connection")
        }

        /// A port that was free a moment ago.
        private func freePort() async throws -> Int {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .bind(host: "127.0.0.1", port: 0).get()
            let port = try #require(channel.localAddress?.port)
            try await channel.close().get()
            return port
        }
    }
}
