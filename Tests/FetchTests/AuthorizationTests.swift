import TestKit
import TestTraits
import Testing

@testable import Fetch

/// Secrets in requests.
@Suite(.server, .timeLimit(.minutes(1))) struct AuthorizationTests {
    @Test func aSecretIsSentToItsServerOnlyAndNeverAfterARedirect() async throws {
        let server = try await PictureServer.start(hosts: ["localhost", "*.example.com"])
        var configuration = FetcherConfiguration()
        configuration.rootsPEM = server.rootPEM
        let address = try #require(IPAddress("127.0.0.1"))
        configuration.addresses = AddressPolicy(exceptions: [address])
        for host in ["a.example.com", "b.example.com"] {
            configuration.pinned.append(.init(host: host, port: server.port, address: address))
        }
        let fetcher = try Fetcher(configuration)
        try server.answer("/file", .init([1]))
        for target in ["a", "b"] {
            try server.answer(
                "/to-\(target)",
                .status(302, ["Location": "https://\(target).example.com:\(server.port)/file"]))
        }
        for (host, path) in [("a", "/file"), ("b", "/file"), ("a", "/to-b"), ("a", "/to-a"), ("b", "/to-a")] {
            var request = FetchRequest(url: "https://\(host).example.com:\(server.port)\(path)") { _ in true }
            request.authorization = (FetchOrigin(host: "a.example.com", port: server.port), "Bearer secret")
            _ = try await fetcher.fetch(request)
        }
        let sent = server.requests.map { request in
            "\(request.host.prefix(1)) \(request.path) \(request.headers["authorization"] ?? "-")"
        }
        #expect(
            sent == [
                "a /file Bearer secret", "b /file -", "a /to-b Bearer secret", "b /file -", "a /to-a Bearer secret",
                "a /file -", "b /to-a -", "a /file -",
            ])
        await fetcher.close()
        await server.stop()
    }
}
