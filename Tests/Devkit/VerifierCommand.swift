import ArgumentParser
import TestKit
import UnixSignals

/// `waybill-dev verifier`: the page that judges packages, alone.
struct VerifierCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verifier",
        abstract: "Serves a page that judges order packages as Wallet would, until it is stopped.",
        discussion: """
            The page is /verifier. It needs no network, no account and no other service; packages are judged in this \
            process and not kept. The root is Apple Root CA in PEM for real packages; the page can bring another one.
            """)

    @Option(help: "Address to listen on.") var host = "127.0.0.1"
    @Option(help: "Port to listen on; 0 chooses a free one.") var port = 8091
    @Option(help: "PEM file with the root for packages without one of their own.") var root: String?

    func run() async throws {
        let page = VerifierPage(
            rootsPEM: try self.root.map { try readFile($0) }, rootName: self.root ?? "")
        let listener = try await FakeServer.start(
            host: self.host, port: self.port, bodyLimit: VerifierPage.bodyLimit
        ) { request in
            .response(
                await page.response(to: request.method, request.path, request.body)
                    ?? FakeServer.Response(302, headers: [("location", "/verifier")]))
        }
        Console.line("verifier: http://\(self.host):\(listener.port)/verifier")
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { break }
        await listener.stop()
    }
}
