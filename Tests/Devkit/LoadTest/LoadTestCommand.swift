import APNS
import ArgumentParser
import FoundationEssentials
import Model
import NIOPosix
import Operations

/// `waybill-dev load-test`: sends generated notifications as fast as it can, for the benchmark of the pusher.
///
/// Without Kafka and without Redis.
struct LoadTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load-test",
        abstract: "Sends generated notifications to a server on this machine and reports the rate.")

    @Option(help: "The server, https://127.0.0.1:PORT; only one on this machine is accepted.")
    var url = "https://127.0.0.1:443"

    @Option(help: "PEM file with trusted roots.")
    var roots: String?

    @Option(help: "PEM file of the client certificate, with --key; without it requests carry a provider token.")
    var certificate: String?

    @Option(help: "PEM file with the certificate's private key.")
    var key: String?

    @Option(help: "Number of notifications.")
    var notifications = 100_000

    @Option(help: "Number of devices, notified in turn.")
    var devices = 4000

    @Option(help: "Number of devices that each record concerns.")
    var fanOut = 4

    @Option(help: "Maximum number of open streams per connection.")
    var streams = 100

    @Option(help: "Number of connections.")
    var connections = 1

    @Option(help: "Number of notifications in hand at once, waiting ones included.")
    var ahead = 1000

    @Flag(help: "Print the paths of the devices and send nothing.")
    var paths = false

    func validate() throws {
        for (name, value, limit) in [
            ("notifications", self.notifications, 100_000_000), ("devices", self.devices, 1_000_000),
            ("streams", self.streams, 100_000), ("connections", self.connections, 64), ("ahead", self.ahead, 100_000),
            ("fan-out", self.fanOut, 1000),
        ] where !(1...limit).contains(value) {
            throw ValidationError("--\(name) \(value): must be from 1 to \(limit)")
        }
        guard (self.certificate == nil) == (self.key == nil) else {
            throw ValidationError("--certificate and --key belong together")
        }
        // Only this machine, named by its address: APNs counts a flood as an attack, and its devices are real.
        guard try self.paths || Self.isHere(APNSEndpoint(url: self.url)) else {
            throw ValidationError("--url \(self.url): must be a server on this machine, named by its address")
        }
    }

    func run() async throws {
        let targets = try loadTestTargets(self.devices)
        guard !self.paths else {
            return Self.say(targets.map { "/3/device/\($0.registration.pushToken.rawValue)\n" }.joined())
        }
        let loadTest = LoadTest(
            endpoint: try APNSEndpoint(url: self.url), credential: try self.credential(),
            roots: try self.roots.map(Self.content), targets: targets, notifications: self.notifications,
            fanOut: self.fanOut, streams: self.streams, connections: self.connections,
            ahead: self.ahead)
        Self.say(try await loadTest.run().json + "\n")
    }

    /// Returns true for an address that is surely this machine; a name could resolve to any address.
    static func isHere(_ endpoint: APNSEndpoint) -> Bool { ["127.0.0.1", "::1"].contains(endpoint.host) }

    private func credential() throws -> APNSCredential {
        if let certificate = self.certificate, let key = self.key {
            return .certificate(chainPEM: try Self.content(certificate), keyPEM: try Self.content(key))
        }
        // It has the length of a real signature but is none: nghttpd does not check it.
        return .token(
            ProviderTokenSource(keyIdentifier: "LOADTEST00", teamIdentifier: "LOADTEST01") { _ in
                (0..<64).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ 13) }
            })
    }

    private static func content(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    private static func say(_ text: String) { StandardStream.output.write(text) }
}
