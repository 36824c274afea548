import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// The whole client against a server that behaves randomly. A failure names its seed; see `fuzzSeeds`.
    @Suite(.server) struct APNSFuzzTests {
        @Test(arguments: fuzzSeeds(2, share: 0.05))
        func eachRequestHasOneReplyWhateverTheServerDoes(_ seed: UInt64) async throws {
            let group = MultiThreadedEventLoopGroup.singleton
            let certificates = try Certificates.shared.get()
            let server = try RandomServer(seed: seed, group: group)
            try await server.start()
            let events = EventLog()
            let log = ReplyLog()
            let client = try APNSClient(
                endpoint: try APNSEndpoint(url: "https://localhost:\(server.port)"),
                credential: .certificate(chainPEM: certificates.client, keyPEM: certificates.clientKey),
                rootsPEM: certificates.root, eventLoopGroup: group, configuration: self.configuration(events),
                onReplies: log.append)
            var random = SeededRandom(seed: seed)
            var total = 0
            for _ in 0..<50 {
                let count = Int.random(in: 1...100, using: &random)
                client.submit(try makeRequests(count, from: total))
                total += count
                try await Task.sleep(for: .milliseconds(Int.random(in: 1...60, using: &random)))
            }
            let submitted = total
            try await eventually("each reply, seed \(seed)", within: .seconds(20)) { log.all.count >= submitted }
            // Requests in flight when the client is closed have received their replies by the time `close` returns.
            client.submit(try makeRequests(200, from: total))
            total += 200
            let began = ContinuousClock.now
            await client.close()
            #expect(ContinuousClock.now - began < .seconds(5), "seed \(seed): half a second, and one for TLS")
            #expect(log.all.map(\.number).sorted() == Array(0..<UInt64(total)), "seed \(seed): one reply for each")
            #expect(await client.snapshot().isEmpty, "seed \(seed)")
            try await eventually("no connection is left, seed \(seed)") { server.state.open == 0 }
            let state = server.state
            #expect(state.violations == [], "seed \(seed)")
            // Otherwise the run would have tested nothing.
            #expect(state.connections > 5, "seed \(seed)")
            #expect(state.answered > 20, "seed \(seed)")
            #expect(log.all.contains { $0.outcome.status == 200 }, "seed \(seed)")
            #expect(log.all.contains { $0.outcome.error != nil }, "seed \(seed)")
            await server.stop()
        }

        private func configuration(_ events: EventLog) -> APNSConfiguration {
            var configuration = poolConfiguration(events)
            configuration.requestTimeout = .milliseconds(400)
            configuration.queueTimeout = .milliseconds(800)
            configuration.queueLimit = 600
            configuration.connectTimeout = .milliseconds(800)
            configuration.pingInterval = .milliseconds(150)
            configuration.growAge = .milliseconds(20)
            configuration.growSustain = .milliseconds(20)
            configuration.shrinkAfter = .milliseconds(300)
            configuration.closeTimeout = .milliseconds(500)
            configuration.backoff.least = .milliseconds(5)
            configuration.backoff.most = .milliseconds(20)
            return configuration
        }
    }
}

extension APNSSnapshot {
    /// True if no connection is open and no request is queued.
    fileprivate var isEmpty: Bool {
        self.connections.isEmpty && self.streamsInUse == 0 && self.queued == 0 && self.oldestQueued == nil
    }
}
