import CoreMetrics
import Kafka
import Model
import Operations

/// Does what has to be done outside for notifications that have their verdicts: takes registrations off, writes
/// letters.
///
/// Thread: several lanes, tasks of the worker. Nothing is given up: while Kafka or Redis is away it is tried again with
/// growing pauses, and the records behind it stay open.
struct PushErrands: Sendable {
    /// How many are done at once: each waits for Kafka's acknowledgement most of the time.
    static let lanes = 32

    let queue: PushErrandQueue
    let retirement: Retirement
    let topics: Topics
    let producer: KafkaProducer
    let metrics: PusherMetrics
    let journal: PushJournal
    /// Tells the desk.
    let onDone: @Sendable (PushEffect) -> Void
    var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }

    /// One lane: does one thing after the other until no more is given out, or the task is cancelled.
    func work() async {
        while let effect = await self.queue.next() {
            if await self.finish(effect) { self.onDone(effect) }
            self.queue.ended()
        }
    }

    /// - Returns: whether it was done; false only when the task was cancelled.
    private func finish(_ effect: PushEffect) async -> Bool {
        var progress: [Retirement.Progress] = []
        var attempt = 0
        while true {
            do {
                switch effect.work {
                case .retire(let registrations): try await self.retire(registrations, &progress)
                case .report(let letter):
                    _ = try await self.producer.produce(letter.message(self.topics))
                    self.metrics.of(letter).deadLetter(letter.code)
                }
                if attempt > 0 { self.journal.isBack(.errands) }
                return true
            } catch {
                attempt += 1
                self.journal.isAway(.errands, "\(error)")
                let delay = backoff(attempt: attempt, random: self.random)
                // Uncommitted work is repeated by whoever comes next.
                do { try await Task.sleep(for: delay) } catch { return false }
            }
        }
    }

    /// - Parameter progress: of those that were begun, in order.
    private func retire(
        _ registrations: [(key: RegistrationKey, record: RegistrationRecord)], _ progress: inout [Retirement.Progress]
    ) async throws {
        for (index, (key, record)) in registrations.enumerated() {
            if index == progress.count { progress.append(Retirement.Progress()) }
            if progress[index].isDone { continue }
            if try await self.retirement.retire(key, record, &progress[index]) {
                self.metrics[key.order.orderType.rawValue].retired()
            }
            progress[index].isDone = true
        }
    }
}
