import ArgumentParser
import Foundation
import TestKit
import UnixSignals

/// `waybill-dev apns`: the APNs simulator as a program.
struct APNSCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns",
        abstract: "Runs an APNs simulator until SIGTERM: HTTP/2 over TLS, strict, can be told to fail.",
        discussion: """
            Prints "ready url=… admin=…" when both ports are open. GET /deliveries?after=N&wait=SECONDS, POST, GET and \
            DELETE /faults and GET /connections on the admin port.
            """)

    @Option(help: "The directory of waybill-dev certificates: server certificate, and the root of client certificates.")
    var certificates: String

    @Option(help: "Port for notifications on 127.0.0.1; 0 is a free one.")
    var port = 0

    @Option(help: "Port for the admin interface on 127.0.0.1; 0 is a free one.")
    var adminPort = 0

    @Option(help: "A file that gets APNS_URL=… and APNS_ADMIN_URL=… when ready.")
    var addressFile: String?

    @Option(help: "Roots for client certificates, PEM; default: root and intermediate of the directory.")
    var trust: String?

    @Option(help: "A topic that may be pushed to; may be repeated. Default: any.")
    var topic: [String] = []

    @Option(help: "Streams a client may have open at once.")
    var maxConcurrentStreams = 1000

    @Option(help: "How late each answer comes.")
    var delayMilliseconds = 0

    @Option(help: "The key of provider tokens, PEM. Without it their signature is not checked.")
    var providerKey: String?

    @Option(help: "Ten characters: the kid of provider tokens.")
    var keyIdentifier: String?

    @Option(help: "Ten characters: the iss of provider tokens.")
    var team: String?

    func validate() throws {
        guard (0...65_535).contains(self.port), (0...65_535).contains(self.adminPort) else {
            throw ValidationError("a port is 0 to 65535")
        }
        guard (0...100_000).contains(self.maxConcurrentStreams), (0...600_000).contains(self.delayMilliseconds) else {
            throw ValidationError("at most 100000 streams and 600000 milliseconds")
        }
        let key = [self.providerKey, self.keyIdentifier, self.team]
        guard key.allSatisfy({ $0 == nil }) || key.allSatisfy({ $0 != nil }) else {
            throw ValidationError("--provider-key, --key-identifier and --team go together")
        }
    }

    func run() async throws {
        // Trapped before anything is announced, so that a SIGTERM right after "ready" is not lost.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let simulator = try await APNSSimulator.start(self.simulatorConfiguration())
        if let file = self.addressFile {
            let text = "APNS_URL=\(simulator.url)\nAPNS_ADMIN_URL=\(simulator.adminURL)\n"
            try Data(text.utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
        }
        let ready = "ready url=\(simulator.url) admin=\(simulator.adminURL)\n"
        try FileHandle.standardOutput.write(contentsOf: Data(ready.utf8))
        for await _ in signals { break }
        await simulator.stop()
    }

    private func simulatorConfiguration() throws -> APNSSimulatorConfiguration {
        var configuration = try APNSSimulatorConfiguration(certificates: self.certificates)
        if let trust = self.trust { configuration.trustPEM = try APNSSimulatorConfiguration.read(trust) }
        if let path = self.providerKey, let key = self.keyIdentifier, let team = self.team {
            configuration.providerKeys = [
                try APNSSimulatorProviderKey(
                    pem: try APNSSimulatorConfiguration.read(path), keyIdentifier: key, team: team)
            ]
        }
        configuration.topics = Set(self.topic)
        configuration.port = self.port
        configuration.adminPort = self.adminPort
        configuration.maxConcurrentStreams = self.maxConcurrentStreams
        configuration.delayMilliseconds = self.delayMilliseconds
        return configuration
    }
}
