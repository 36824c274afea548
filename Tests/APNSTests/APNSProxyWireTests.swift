import Model
import NIOCore
import NIOPosix
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// A client that connects through a proxy.
    @Suite(.server) struct APNSProxyWireTests {
        private func run(
            _ manner: ConnectProxy.Manner, user: String = "", _ configuration: APNSConfiguration,
            _ body: (APNSClient, ScriptedServer, ConnectProxy) async throws -> Void
        ) async throws {
            let proxy = ConnectProxy(group: MultiThreadedEventLoopGroup.singleton, manner)
            try await proxy.start()
            let address = try APNSProxy(url: "http://\(user)127.0.0.1:\(proxy.port)")
            let result: Result<Void, any Error>
            do {
                try await withClient(configuration: configuration, proxy: address) { _ in
                    [.answer(200)]
                } body: { client, server in
                    try await body(client, server, proxy)
                }
                result = .success(())
            } catch { result = .failure(error) }
            await proxy.stop()
            try result.get()
        }

        @Test func connectionsGoThroughTheProxyWhichResolvesTheName() async throws {
            var configuration = poolConfiguration(nil, 2...2)
            configuration.resolver = HostResolver { host, port throws(APNSError) in
                // The client must not resolve the endpoint's name itself.
                guard host == "127.0.0.1" else { throw APNSError(.connecting, "asked for \(host)") }
                return try resolveHost(host, port: port)
            }
            try await self.run(.tunnel(needs: nil), configuration) { client, server, proxy in
                #expect(try await client.send(makeNotifications(200)).allSatisfy { $0.status == 200 })
                let head = try #require(proxy.requests.first)
                #expect(
                    head.hasPrefix("CONNECT localhost:\(server.port) HTTP/1.1\r\nhost: localhost:\(server.port)\r\n"))
                #expect(!head.contains("authorization"))
            }
        }

        @Test func theCredentialIsSentToTheProxy() async throws {
            // printf 'us@er:pass' | base64
            try await self.run(.tunnel(needs: "dXNAZXI6cGFzcw=="), user: "us%40er:pass@", quickConfiguration()) {
                client, server, proxy in
                let answers = await client.send(try makeNotifications(5))
                #expect(answers.allSatisfy { $0.status == 200 })
            }
        }

        @Test(arguments: [
            (ConnectProxy.Manner.tunnel(needs: "x"), "the proxy answered 407"),
            (.say("HTTP/1.1 503 Busy\r\n\r\n"), "the proxy answered 503"),
            (.say("220 mail.example.com ESMTP\r\n"), "does not speak HTTP/1"), (.close, "closed the connection"),
            (.silence, "no end within"),
        ])
        func aProxyFailureIsNamedWithoutTheCredential(_ manner: ConnectProxy.Manner, _ sentence: String) async throws {
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(700)
            configuration.connectTimeout = .milliseconds(300)
            try await self.run(manner, user: "user:secret@", configuration) { client, server, proxy in
                let outcomes = await client.send(try makeNotifications(2))
                #expect(outcomes.allSatisfy { $0.error?.code == .connecting }, "\(outcomes)")
                #expect(outcomes[0].error?.message.contains(sentence) == true, "\(outcomes[0])")
                #expect(outcomes[0].error?.message.contains("secret") == false)
                #expect(server.connections == 0)
            }
        }
    }
}
