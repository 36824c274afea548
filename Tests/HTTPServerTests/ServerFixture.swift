import Foundation
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import ServiceLifecycle
import ServiceLifecycleTestKit
import TestKit
import Testing

@testable import HTTPServer

/// The real server in front of a role that answers from memory, for one test.
struct ServerFixture: WalletServer, Sendable {
    static let orderType = "order.com.example.shop"
    static let ownToken = "own-token-of-the-order"

    let port: Int
    let responder: OrderResponder
    let metrics: MetricsRegistry
    let readiness: Readiness
    let trigger: GracefulShutdownTestTrigger

    struct Options: Sendable {
        var holding = OrderResponder.Hold()
        var idleLimit = RequestLimits.idle
        /// Changes the transport policy in front of the role.
        var edge: @Sendable (inout TransportPolicy) -> Void = { _ in }
        /// True to end the server by cancellation instead of a graceful shutdown.
        var isCancelled = false
    }

    /// Runs `body` while the server listens, then stops the server and waits until it ends.
    static func with(
        _ options: Options = Options(), _ body: @escaping @Sendable (ServerFixture) async throws -> Void
    ) async throws {
        let environment = ServiceEnvironment(
            common: try CommonSettings(Settings(environment: [:])), group: .singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: HTTPListener.conditions),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let responder = OrderResponder(holding: options.holding, metrics: environment.metrics)
        var edge = TransportPolicy(metrics: TransportMetrics(factory: environment.metrics))
        edge.requestLimit = options.idleLimit
        options.edge(&edge)
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let server = HTTPListener(
            address: ListenAddress(host: "127.0.0.1", port: 0), endpoints: responder, environment: environment,
            edge: edge, onStopped: {}, onListening: { continuation.yield($0) })
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await server.run() }
                guard let port = await ports.first(where: { _ in true }) else { throw CancellationError() }
                do {
                    try await body(
                        ServerFixture(
                            port: port, responder: responder, metrics: environment.metrics,
                            readiness: environment.readiness, trigger: trigger))
                } catch {
                    trigger.triggerGracefulShutdown()
                    throw error
                }
                if options.isCancelled { group.cancelAll() } else { trigger.triggerGracefulShutdown() }
                try await group.waitForAll()
            }
        }
    }

    static var package: [UInt8] { OrderResponder.package.flatMap { Array($0.readableBytesView) } }

    /// Stores a version of an order, which answers the requests that wait for it.
    func put(_ order: String, version: Int64 = 1, token: String = ownToken) async throws {
        self.responder.put(order, .init(token: token, entityTag: "tag-\(version)"))
    }

    /// Returns the token with which a request waits for an order that is not stored yet.
    func derived(_ order: String) throws -> String { OrderResponder.derived(order) }
    var metricsText: String { self.metrics.text }
    /// The reasons why the server is not ready.
    var reasons: [String] { self.readiness.reasons }
    func stop() { self.trigger.triggerGracefulShutdown() }
}
