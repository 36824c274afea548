import CoreMetrics
import FoundationEssentials
import Kafka
import Model
import Operations

/// Performs the side effects of final verdicts: removes registrations, writes dead letters, and writes devices to the
/// pending topic.
///
/// Thread: several tasks of the worker. No effect is abandoned before shutdown: while Kafka or Redis is unavailable it
/// is retried with growing pauses, and the records that wait for it stay open.
struct FollowUps: Sendable {
    let scheduler: PushScheduler
    let retirement: TokenInvalidation
    let topics: Topics
    let producer: KafkaProducer
    let metrics: PusherMetrics
    let log: PusherLog
    var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }

    /// Performs one effect after another until the queue has ended; once the task is cancelled, those that fail are
    /// abandoned.
    func work() async {
        let queue = self.scheduler.followUps
        while let effect = await queue.next() {
            if let current = await self.finish(effect) { self.scheduler.done(effect, current: current) }
            queue.ended(effect)
        }
    }

    /// - Returns: for a token that is gone, the present registrations of its keys; nil only if the task was cancelled
    ///   and the effect is not done.
    private func finish(_ effect: PushEffect) async -> [RegistrationKey: RegistrationRecord]? {
        var round = Round()
        // The partition's next owner repeats uncommitted work.
        return try? await self.log.retrying(.followUps, random: self.random) {
            try await self.perform(effect, &round)
        }
    }

    private func perform(
        _ effect: PushEffect, _ round: inout Round
    ) async throws -> [RegistrationKey: RegistrationRecord] {
        switch effect.work {
        case .retire(let dead): return try await self.retire(dead, &round)
        case .report(let deadLetters):
            let messages = deadLetters.map { $0.message(self.topics) }
            for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
            // They are of one device.
            if let first = deadLetters.first {
                self.metrics[first.registration.order.orderType.rawValue].deadLetter(first.code)
            }
        case .suspend(let pushes):
            let now = Int64(Date().timeIntervalSince1970 * 1000)
            let messages = pushes.map { $0.message(self.topics.pushPending, nowEpochMilliseconds: now) }
            for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
            self.metrics.pendingWritten.increment(by: pushes.count)
        }
        return [:]
    }

    /// The progress of removing the registrations of a token that is gone. A step that was begun is finished even if
    /// the registrations change meanwhile.
    private struct Round {
        var steps: [(key: RegistrationKey, record: RegistrationRecord, progress: TokenInvalidation.Progress)] = []
        /// True once the registrations in hand, and then their devices' others, are among the steps.
        var hasOwn = false
        var hasOthers = false
    }

    /// - Returns: the present registrations of the token's keys.
    private func retire(
        _ dead: InvalidToken, _ round: inout Round
    ) async throws -> [RegistrationKey: RegistrationRecord] {
        let own = dead.registrations.filter { dead.means($0.value) }
        if !round.hasOwn {
            round.steps = own.map { ($0.key, $0.value, TokenInvalidation.Progress()) }
            round.hasOwn = true
        }
        try await self.finish(&round)
        if !round.hasOthers {
            // A newer registration shows that the device is back: then none of its other registrations is changed.
            if own.count == dead.registrations.count {
                round.steps += try await self.retirement.others(of: dead).map { ($0, $1, TokenInvalidation.Progress()) }
            }
            round.hasOthers = true
            try await self.finish(&round)
        }
        return try await self.retirement.current(Array(dead.registrations.keys))
    }

    private func finish(_ round: inout Round) async throws {
        for index in round.steps.indices where !round.steps[index].progress.isDone {
            let (key, record, _) = round.steps[index]
            if try await self.retirement.retire(key, record, &round.steps[index].progress) {
                self.metrics[key.order.orderType.rawValue].retired()
            }
            round.steps[index].progress.isDone = true
        }
    }
}
