import CoreMetrics
import Logging
import Model
import ServiceLifecycle
import Store

/// Makes the packages that gateways ask for, of versions that had none, as long as the packager runs.
///
/// Any packager makes any order's: each write is a compare-and-set. Orders that need Redis alone are not behind those
/// that Kafka has. A request that fails is not repeated here, since the gateway repeats it while a client waits.
struct RequestedPackages: Service {
    /// Most packages that are made together.
    private static let batch = 64
    /// Most batches in hand: while one waits for Redis, another one is signed.
    private static let concurrency = 4
    private static let afterFailure: Duration = .seconds(1)

    let requests: PackageRequests
    let repackager: OrderRepackager
    let requested: Counter
    let logger: Logger
    /// Called when the service stops.
    var onStopped: @Sendable () async -> Void = {}

    /// The end of one piece of work.
    private enum Event: Sendable {
        case taken([OrderKey])
        /// The warm orders of a batch are done.
        case made([(OrderKey, OrderRepackager.Outcome)], cold: [OrderRepackager.ColdRequest])
        /// Cold orders are done.
        case read([(OrderKey, OrderRepackager.Outcome)], ColdShare)
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            try await withThrowingTaskGroup(of: Event.self) { group in
                var batches = 0
                var room = ColdRoom()
                var log = RequestLog()
                group.addTask { try await self.take() }
                while let event = try await group.next() {
                    // Redis answers a wait for requests with none: that is no error which a stop could be noticed by.
                    try Task.checkCancellation()
                    switch event {
                    case .taken(let keys):
                        batches += 1
                        group.addTask { try await self.make(keys) }
                        if batches < Self.concurrency { group.addTask { try await self.take() } }
                    case .made(let outcomes, let cold):
                        self.report(outcomes, &log)
                        for share in room.enter(cold) { group.addTask { try await self.read(share) } }
                        if batches == Self.concurrency { group.addTask { try await self.take() } }
                        batches -= 1
                    case .read(let outcomes, let share):
                        self.report(outcomes, &log)
                        room.leave(share)
                    }
                }
            }
        }
        await self.onStopped()
    }

    private func take() async throws -> Event {
        .taken(try await self.attempt { try await self.requests.take(Self.batch) } ?? [])
    }

    private func make(_ keys: [OrderKey]) async throws -> Event {
        guard !keys.isEmpty else { return .made([], cold: []) }
        let (outcomes, cold) = try await self.attempt { try await self.repackager.package(warm: keys) } ?? ([], [])
        return .made(outcomes, cold: cold)
    }

    private func read(_ share: ColdShare) async throws -> Event {
        .read(try await self.attempt { try await self.repackager.package(cold: share.requests) } ?? [], share)
    }

    /// - Returns: nil after a failure, which is logged, and a pause.
    private func attempt<Value>(_ body: () async throws -> Value) async throws -> Value? {
        do {
            return try await body()
        } catch {
            try Task.checkCancellation()
            self.logger.warning("cannot make packages that are asked for", metadata: ["error": "\(error)"])
            try await Task.sleep(for: Self.afterFailure)
            return nil
        }
    }

    private func report(_ outcomes: [(OrderKey, OrderRepackager.Outcome)], _ log: inout RequestLog) {
        for (key, outcome) in outcomes {
            if case .signed = outcome { self.requested.increment() }
            guard let (what, reason) = outcome.complaint, log.isDue(key, now: .now) else { continue }
            self.logger.log(
                level: what == "refused" ? .error : .warning, "an order that is asked for cannot be packaged",
                metadata: ["order": "\(key)", "reason": "\(reason)"])
        }
    }
}

/// Cold orders of one partition that are read together.
struct ColdShare: Sendable {
    let requests: [OrderRepackager.ColdRequest]
    var bytes: Int { self.requests.reduce(0) { $0 + $1.bytes } }
}

/// The limit on cold orders that are read at once. No clock, no I/O.
///
/// A partition that does not answer holds its orders up, and no others. Those for which there is no room are dropped.
struct ColdRoom {
    /// Most shares that are read at once.
    static let limit = 64
    /// Most bytes of their records. One share alone may have more.
    static let byteLimit = 16 << 20

    private(set) var count = 0
    private(set) var bytes = 0

    /// Divides orders by their partitions.
    ///
    /// - Returns: the shares for which there is room.
    mutating func enter(_ requests: [OrderRepackager.ColdRequest]) -> [ColdShare] {
        let shares = Dictionary(grouping: requests, by: \.partition).values.map { ColdShare(requests: $0) }
        return shares.filter { share in
            guard self.count < Self.limit, self.count == 0 || self.bytes + share.bytes <= Self.byteLimit else {
                return false
            }
            self.count += 1
            self.bytes += share.bytes
            return true
        }
    }

    mutating func leave(_ share: ColdShare) {
        self.count -= 1
        self.bytes -= share.bytes
    }
}

/// The limit on log lines about orders that cannot be packaged: one a minute for each. No clock.
///
/// Bounded: while `limit` orders were logged within a minute, others are not.
struct RequestLog {
    static let pause = Duration.seconds(60)
    static let limit = 1000

    private var logged: [OrderKey: ContinuousClock.Instant] = [:]

    mutating func isDue(_ key: OrderKey, now: ContinuousClock.Instant) -> Bool {
        if let last = self.logged[key], now - last < Self.pause { return false }
        if self.logged.count >= Self.limit { self.logged = self.logged.filter { now - $0.value < Self.pause } }
        guard self.logged.count < Self.limit else { return false }
        self.logged[key] = now
        return true
    }
}
