import ArgumentParser
import Foundation
import TestKit
import UnixSignals

/// `waybill-dev apns`: the APNs simulator as a program.
struct APNSCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns",
        abstract: "Runs an APNs simulator until SIGTERM: HTTP/2 over TLS, strict, with faults on request.",
        discussion: """
            Prints "ready url=… admin=…" when both ports are open. Checks every request as Apple describes it and
            answers with Apple's status, reason and apns-id. The admin port is plain HTTP with JSON:

              GET DELETE /deliveries   notifications; ?after=N&wait=SECONDS&limit=N, at most 10000 per page
              GET DELETE /journal      connections, SETTINGS, GOAWAY, requests, violations; ?after=N&limit=N
              GET /unheard             deliveries on closed connections whose answers may not have been read
              GET /connections         the open ones
              GET /statistics          counts by status and reason, most streams, violations by clients
              GET POST DELETE /faults  the faults; POST adds one
              GET POST DELETE /scenario  {"seed": 7, "steps": [{"at": SECONDS | "afterRequests": N, "for": SECONDS,
                                       "fault": {…}}, …]}

            A fault has its scope: token, connection (a number, or oldest, newest, busiest, random), count,
            probability, for (seconds), "now": true (immediately, on the open connections). And its effect, one of:

              status, with reason, delayMilliseconds, retryAfterSeconds, timestampEpochMilliseconds or
                timestampOffsetSeconds or "timestamp": "none", "identifier": false,
                body (none, broken, huge or page with bodyBytes, unfinished)
              delayMilliseconds: N or [least, most]      the usual answer, late
              goaway: {reason, processed, errorCode, debug, behind: N, pairMilliseconds, stays}
              cut: true or "reset"; halfClose: true      the end of the TCP connection
              silence: true                              no answer; now: as blackHole
              resetStream: ERROR_CODE                    RST_STREAM
              maxConcurrentStreams: N, with refuseOpen   another limit
              mute, blackHole, shutWindow: true          no answers; nothing read and sent; no window
              slowReads, trickle: {bytes, everyMilliseconds}
              lateSettingsMilliseconds, slowHandshakeMilliseconds: N; refuseHandshake: ALERT; dropConnects: true
              closeListener: true                        connects are refused
              clockSeconds: N                            the clock is shifted: provider tokens expire
            """)

    @Option(help: "The directory of waybill-dev certificates: server certificate, and the root of client certificates.")
    var certificates: String

    @Option(help: "The address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port for notifications; 0 chooses a free one.")
    var port = 0

    @Option(help: "Port for the admin interface; 0 chooses a free one.")
    var adminPort = 0

    @Option(help: "A file to write APNS_URL=… and APNS_ADMIN_URL=… to when ready.")
    var addressFile: String?

    @Option(help: "Roots for client certificates, PEM; default: root and intermediate of the directory.")
    var trust: String?

    @Option(help: "A topic that may be pushed to; may be repeated. Default: any.")
    var topic: [String] = []

    @Option(help: "Streams a client may have open at once.")
    var maxConcurrentStreams = 1000

    @Option(help: "Delay of each answer.")
    var delayMilliseconds = 0

    @Option(help: "The key of provider tokens, PEM. Without it their signature is not checked.")
    var providerKey: String?

    @Option(help: "Ten characters: the kid of provider tokens.")
    var keyIdentifier: String?

    @Option(help: "Ten characters: the iss of provider tokens.")
    var team: String?

    @Option(help: "Seed of random faults and delays.")
    var seed: UInt64 = 1

    @Option(help: "Maximum number of deliveries to keep, and of events.")
    var journal = 200_000

    func validate() throws {
        guard (0...65_535).contains(self.port), (0...65_535).contains(self.adminPort) else {
            throw ValidationError("a port is 0 to 65535")
        }
        guard (0...100_000).contains(self.maxConcurrentStreams), (0...600_000).contains(self.delayMilliseconds) else {
            throw ValidationError("at most 100000 streams and 600000 milliseconds")
        }
        guard (1...10_000_000).contains(self.journal) else { throw ValidationError("a journal has 1 to 10000000") }
        let key = [self.providerKey, self.keyIdentifier, self.team]
        guard key.allSatisfy({ $0 == nil }) || key.allSatisfy({ $0 != nil }) else {
            throw ValidationError("--provider-key, --key-identifier and --team go together")
        }
    }

    func run() async throws {
        // Trapped before anything is printed, so that a SIGTERM right after "ready" is not lost.
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
        configuration.seed = self.seed
        configuration.journalLimit = self.journal
        configuration.topics = Set(self.topic)
        configuration.host = self.host
        configuration.port = self.port
        configuration.adminPort = self.adminPort
        configuration.maxConcurrentStreams = self.maxConcurrentStreams
        configuration.delayMilliseconds = self.delayMilliseconds
        return configuration
    }
}
