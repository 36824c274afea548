import NIOCore
import Redis
import Store
import Synchronization

/// Keeps the gateway from answering out of a Redis that may have fallen back.
///
/// A server that was started again or took over may have an older copy: orders are missing in it, others are older than
/// what devices have. The client's generation has grown by the time such a server gives its first answer. So whoever
/// answers reads it before asking Redis and after the reply, and answers only if it is both times the one that was
/// confirmed: under it somebody looked and found that a packager has judged the view as it stands on these servers.
/// Threads: any. Bounded: one look at a time and `ViewInquiry.limit` who wait for it, as long as Redis takes to answer.
/// Source: DESIGN §4, last paragraph
final class ViewGuard: Sendable {
    /// How often a look is repeated that a new server overtook.
    private static let lookLimit = 3

    private struct Inquiry {
        var decision = ViewInquiry()
        var waiters: [EventLoopPromise<UInt64?>] = []
    }

    private let view: View
    /// No client's generation gets as high, so nothing is confirmed at first.
    private let confirmed = Atomic<UInt64>(.max)
    private let inquiry = Mutex(Inquiry())

    init(_ view: View) { self.view = view }

    /// The generation to answer under; nil while the view is in doubt. Two loads: it is asked for each request.
    var generation: UInt64? {
        let generation = self.view.redis.generation
        return self.confirmed.load(ordering: .acquiring) == generation ? generation : nil
    }

    /// Whether what was read since `generation` was given out, up to now, came from the servers that it stands for.
    func holds(_ generation: UInt64) -> Bool { self.view.redis.generation == generation }

    /// Looks at the view, once for all who ask at the same time.
    ///
    /// - Returns: the generation to answer under, nil if the view is in doubt still; fails with `StoreError` while
    ///   Redis is away.
    func settled(on eventLoop: any EventLoop) -> EventLoopFuture<UInt64?> {
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

    /// Answers with what `act` makes, if the view was beyond doubt before and still is.
    ///
    /// - Parameter act: gets the generation, to look whether it holds before it does what cannot be taken back.
    func answer(
        on eventLoop: any EventLoop, _ act: @escaping @Sendable (UInt64) -> EventLoopFuture<Answer>
    ) -> EventLoopFuture<Answer> {
        self.settled(on: eventLoop).flatMap { generation in
            guard let generation else { return eventLoop.makeSucceededFuture(.restoring) }
            return act(generation).map { self.holds(generation) ? $0 : .restoring }
        }
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
        // The first connection makes the generation grow as well.
        _ = try await self.view.redis.topology()
        for _ in 0..<Self.lookLimit {
            let before = self.view.redis.generation
            let places = try await self.view.look()
            switch ViewInquiry.Verdict(places, before: before, after: self.view.redis.generation) {
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
