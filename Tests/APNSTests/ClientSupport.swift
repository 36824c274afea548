import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import APNS

/// The tests with sockets and deadlines, run serially because their waits are fractions of a second.
@Suite(.serialized) struct WireTests {}

/// The events on a client's connections, for tests to wait on.
final class EventLog: Sendable {
    private let events = Mutex<[APNSEvent]>([])

    var all: [APNSEvent] { self.events.withLock { $0 } }

    func append(_ event: APNSEvent) { self.events.withLock { $0.append(event) } }

    func count(_ event: APNSEvent) -> Int { self.all.count { $0 == event } }

    var goAwayReasons: [String?] {
        self.all.compactMap { if case .goAway(let reason, _) = $0 { .some(reason) } else { nil } }
    }
}

func makeNotifications(_ count: Int, from first: Int = 0) throws -> [PushNotification] {
    try (first..<first + count).map { number in
        let digits = String(number, radix: 16)
        let token = String(repeating: "0", count: 64 - digits.count) + digits
        return PushNotification(
            deviceToken: try PushToken(token), topic: try OrderTypeIdentifier("order.com.example.shop"),
            expirationEpochSeconds: 1_800_000_000)
    }
}

/// Returns the number that `makeNotifications` put into the token in a request's path.
func number(_ request: ScriptedServer.Request) -> Int { Int(request.path.suffix(8), radix: 16) ?? -1 }

extension PushOutcome {
    var status: Int? { if case .answered(let answer) = self { answer.status } else { nil } }
    var answer: PushAnswer? { if case .answered(let answer) = self { answer } else { nil } }
    var error: APNSError? { if case .unanswered(let error) = self { error } else { nil } }
}

/// Returns a configuration in which production waits of minutes are fractions of a second.
func quickConfiguration(_ log: EventLog? = nil) -> APNSConfiguration {
    var configuration = APNSConfiguration()
    configuration.tick = .milliseconds(10)
    configuration.connections = 1...1
    configuration.openSpacing = .milliseconds(10)
    configuration.firstStreams = 1_000
    configuration.closeTimeout = .seconds(2)
    configuration.backoff.quick = .milliseconds(10)
    configuration.backoff.least = .milliseconds(50)
    configuration.backoff.most = .milliseconds(200)
    if let log { configuration.onEvent = { log.append($0) } }
    return configuration
}

/// Runs a test with a client and its server, and closes both in any case.
func withClient(
    configuration: APNSConfiguration, credential: APNSCredential? = nil, roots: [UInt8]? = nil,
    host: String = "localhost",
    proxy: APNSProxy? = nil, bind: String = "127.0.0.1",
    limit: Int = 100, clientRoots: [UInt8]? = nil, identity: (certificate: [UInt8], key: [UInt8])? = nil,
    onReplies: @escaping @Sendable ([PushReply]) -> Void = { _ in },
    script: @escaping ScriptedServer.Script,
    body: (APNSClient, ScriptedServer) async throws -> Void
) async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    let certificates = try Certificates.shared.get()
    let server = try ScriptedServer(
        group: group, limit: limit, clientRoots: clientRoots, identity: identity, script: script)
    try await server.start(host: bind)
    let client = try APNSClient(
        endpoint: try APNSEndpoint(url: "https://\(host):\(server.port)"),
        credential: credential ?? .certificate(chainPEM: certificates.client, keyPEM: certificates.clientKey),
        rootsPEM: roots ?? certificates.root, proxy: proxy, eventLoopGroup: group, configuration: configuration,
        onReplies: onReplies)
    let result: Result<Void, any Error>
    do { result = .success(try await body(client, server)) } catch { result = .failure(error) }
    await client.close()
    await server.stop()
    try result.get()
}
