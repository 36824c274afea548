public import NIOCore
import Redis
import Synchronization

/// Prevents the gateway from answering out of a Redis that may have fallen back.
///
/// A server that was restarted or took over may have an older copy: orders are missing in it, others are older than the
/// devices' versions. The client's generation has grown by the time such a server gives its first answer. So the
/// gateway reads the generation before querying Redis and after the reply, and answers only if both are the confirmed
/// one: under that generation a check has found that a packager has judged the view as it is on these servers.
/// Threads: any. Bounded: one check at a time and `ViewCheckStateMachine.limit` requests that wait for it, as long as
/// Redis takes to answer.
/// Source: Design §4.3
public final class StaleReadGuard: Sendable {
    /// The most repetitions of a check that was overtaken by a new server.
    private static let lookLimit = 3

    private struct Inquiry {
        var decision = ViewCheckStateMachine()
        var waiters: [EventLoopPromise<UInt64?>] = []
    }

    private let view: MaterializedView
    /// A client's generation never gets this high, so nothing is confirmed at first.
    private let confirmed = Atomic<UInt64>(.max)
    private let inquiry = Mutex(Inquiry())

    /// Makes a guard of one view, which all requests share.
    public init(_ view: MaterializedView) { self.view = view }

    /// The generation to answer under; nil while the view is in doubt. Two loads: this runs for each request.
    public var generation: UInt64? {
        let generation = self.view.redis.generation
        return self.confirmed.load(ordering: .acquiring) == generation ? generation : nil
    }

    /// True if everything read since `generation` was returned came from the servers of that generation.
    public func holds(_ generation: UInt64) -> Bool { self.view.redis.generation == generation }

    /// Checks the view, once for all requests that wait at the same time.
    ///
    /// - Returns: the generation to answer under, nil if the view is still in doubt; fails with `StoreError` while
    ///   Redis is away.
    public func currentGeneration(on eventLoop: any EventLoop) -> EventLoopFuture<UInt64?> {
        if let generation = self.generation { return eventLoop.makeSucceededFuture(generation) }
        let promise = eventLoop.makePromise(of: UInt64?.self)
        let want = self.inquiry.withLock { inquiry in
            let want = inquiry.decision.asked(now: .now())
            if want != .refuse { inquiry.waiters.append(promise) }
            return want
        }
        switch want {
        case .wait: break
        case .refuse: promise.succeed(nil)
        case .look(let moment): eventLoop.scheduleTask(deadline: moment) { self.look(on: eventLoop) }
        }
        return promise.futureResult
    }

    private func look(on eventLoop: any EventLoop) {
        eventLoop.makeFutureWithTask { try await self.look() }.whenComplete { result in
            let waiters = self.inquiry.withLock { inquiry in
                inquiry.decision.looked(now: .now())
                defer { inquiry.waiters = [] }
                return inquiry.waiters
            }
            for waiter in waiters { waiter.completeWith(result) }
        }
    }

    private func look() async throws -> UInt64? {
        // The first connection increases the generation as well.
        _ = try await self.view.redis.topology()
        for _ in 0..<Self.lookLimit {
            let before = self.view.redis.generation
            let shards = try await self.view.look()
            switch ViewCheckStateMachine.Verdict(shards, before: before, after: self.view.redis.generation) {
            case .confirmed:
                self.confirmed.store(before, ordering: .releasing)
                return before
            case .doubtful: return nil
            case .overtaken: continue
            }
        }
        return nil
    }
}
