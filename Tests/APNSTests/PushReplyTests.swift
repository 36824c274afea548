import Model
import NIOCore
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import APNS

/// Collects a client's replies.
final class ReplyLog: Sendable {
    private let bursts = Mutex<[[PushReply]]>([])

    var all: [PushReply] { self.bursts.withLock { $0.flatMap(\.self) } }
    var burstCount: Int { self.bursts.withLock { $0.count } }

    func append(_ replies: [PushReply]) { self.bursts.withLock { $0.append(replies) } }
}

func makeRequests(_ count: Int, from first: Int = 0) throws -> [PushRequest] {
    try makeNotifications(count, from: first).enumerated().map { index, notification in
        PushRequest(number: UInt64(first + index), notification: notification)
    }
}

extension WireTests {
    @Suite(.server) struct PushReplyTests {
        @Test func eachRequestGetsOneReplyAndRepliesAreBatched() async throws {
            let log = ReplyLog()
            try await withClient(configuration: quickConfiguration(), onReplies: log.append) { request in
                // The server answers a hundred in one write.
                request.index % 100 == 0 ? [.hold, .release(200)] : [.hold]
            } body: { client, server in
                client.submit(try makeRequests(500))
                client.submit(try makeRequests(501, from: 500))
                client.submit([])
                try await eventually("the replies") { log.all.count >= 1_001 }
                #expect(log.all.map(\.number).sorted() == Array(0..<1_001))
                #expect(log.all.allSatisfy { $0.outcome.status == 200 && ($0.elapsed ?? .zero) > .zero })
                #expect(log.burstCount < 200)
            }
        }

        @Test func requestsWaitingForAStreamCanBeRecalled() async throws {
            let log = ReplyLog()
            var configuration = quickConfiguration()
            configuration.streamCap = 2
            try await withClient(configuration: configuration, onReplies: log.append) { _ in
                [.after(.seconds(1), [.answer(200)])]
            } body: { client, server in
                client.submit(try makeRequests(10))
                try await eventually("some are in flight") { server.requests.count >= 1 }
                client.recall()
                try await eventually("the replies") { log.all.count == 10 }
                let recalled = log.all.filter { $0.outcome.error?.code == .closed }
                #expect(!recalled.isEmpty)
                #expect(recalled.allSatisfy { $0.elapsed == nil })
                #expect(log.all.count { $0.outcome.status == 200 } == server.requests.count)
                client.submit(try makeRequests(1, from: 10))
                try await eventually("a later one is sent") {
                    log.all.last?.outcome.status == 200 && log.all.count == 11
                }
            }
        }

        @Test func anUnsentRequestHasNoElapsedTime() async throws {
            let log = ReplyLog()
            var configuration = quickConfiguration()
            configuration.queueLimit = 1
            try await withClient(configuration: configuration, onReplies: log.append) { _ in
                [.answer(200)]
            } body: { client, server in
                client.submit(try makeRequests(3))
                try await eventually("the replies") { log.all.count >= 3 }
                let refused = log.all.filter { $0.outcome.error?.code == .queueFull }
                #expect(refused.map(\.number).sorted() == [1, 2])
                #expect(refused.allSatisfy { $0.elapsed == nil })
                await client.close()
                client.submit(try makeRequests(1, from: 7))
                try await eventually("the refusal") { log.all.last?.number == 7 }
                #expect(log.all.last?.outcome.error?.code == .closed)
            }
        }

        @Test func theCollapseIdentifierIsSentOnlyWhenSet() async throws {
            try await withClient(configuration: quickConfiguration()) { _ in
                [.answer(200)]
            } body: { client, server in
                var notifications = try makeNotifications(6)
                for index in [1, 3, 4] { notifications[index].collapseIdentifier = "shop-\(index)" }
                _ = await client.send(notifications)
                let identifiers = server.requests.sorted { number($0) < number($1) }.map {
                    $0.headers["apns-collapse-id"]
                }
                #expect(identifiers == [nil, "shop-1", nil, "shop-3", "shop-4", nil])
            }
        }

        @Test func aSnapshotCountsOpenStreamsAndQueuedRequests() async throws {
            try await withClient(configuration: quickConfiguration(), limit: 2) { request in
                request.index == 0 ? [.answer(200)] : [.hold]
            } body: { client, server in
                #expect(await client.snapshot() == APNSSnapshot())
                _ = await client.send(try makeNotifications(1))
                client.submit(try makeRequests(5))
                try await eventually("two requests on the wire") { server.requests.count >= 3 }
                let snapshot = await client.snapshot()
                #expect((snapshot.connections[.open] ?? 0) >= 1)
                #expect(snapshot.streamsInUse + snapshot.queued == 5)
                #expect(snapshot.streamsInUse >= 2)
                #expect(snapshot.streamLimit >= 2)
                #expect(snapshot.lastFailure == nil)
                #expect((snapshot.queued == 0) == (snapshot.oldestQueued == nil))
            }
        }
    }
}
