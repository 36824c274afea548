import Kafka
import Model
import Pusher
import Synchronization

/// Generates records and passes them to the scheduler, as the worker does with records that it has read and looked up,
/// so that a given number of them is always in hand.
///
/// Bounded: `ahead` records. Thread: `finish` any, the rest one task.
final class LoadTestFeed: Sendable {
    private struct State {
        var inHand = 0
        /// The task that waits until at most this many are in hand.
        var waiting: (most: Int, continuation: CheckedContinuation<Void, Never>)?
    }

    private let state = Mutex(State())
    private let targets: [LoadTestTarget]
    private let orderType: OrderTypeIdentifier
    private let notifications: Int
    private let fanOut: Int
    private let ahead: Int

    /// - Parameters:
    ///   - fanOut: the number of devices that each record concerns.
    ///   - ahead: the number of notifications in hand.
    init(targets: [LoadTestTarget], orderType: OrderTypeIdentifier, notifications: Int, fanOut: Int, ahead: Int) {
        self.targets = targets
        self.orderType = orderType
        self.notifications = notifications
        self.fanOut = fanOut
        self.ahead = max(1, ahead / fanOut)
    }

    /// Generates all records, and returns when they are done.
    func run(_ scheduler: PushScheduler) async {
        // At most as many as a batch of the worker has; a quarter of `ahead` collects records that finish one by one.
        let batch = max(1, min(self.ahead / 4, PushWorker.batchRecords))
        var (made, offset) = (0, Int64(0))
        while made < self.notifications {
            await self.wait(untilInHand: self.ahead - batch)
            var records: [(receipt: KafkaReceipt, epochMilliseconds: Int64)] = []
            var found: [PushLookup.Found] = []
            found.reserveCapacity(batch * self.fanOut)
            while records.count < batch, made < self.notifications {
                let devices = min(self.fanOut, self.notifications - made)
                self.add(made..<made + devices, for: [records.count], to: &found)
                records.append((self.receipt(offset), -1))
                made += devices
                offset += 1
            }
            self.state.withLock { $0.inHand += records.count }
            scheduler.add(found, scheduler.receive(records))
        }
        await self.wait(untilInHand: 0)
    }

    /// Notes that some records are done.
    func finish(_ count: Int) {
        let continuation = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.inHand -= count
            guard let waiting = state.waiting, state.inHand <= waiting.most else { return nil }
            state.waiting = nil
            return waiting.continuation
        }
        continuation?.resume()
    }

    private func wait(untilInHand most: Int) async {
        await withCheckedContinuation { continuation in
            let isNow = self.state.withLock { state in
                if state.inHand > most { state.waiting = (most, continuation) }
                return state.inHand <= most
            }
            if isNow { continuation.resume() }
        }
    }

    private func add(_ numbers: Range<Int>, for records: [Int], to found: inout [PushLookup.Found]) {
        for number in numbers {
            let target = self.targets[number % self.targets.count]
            found.append(
                PushLookup.Found(
                    orderType: self.orderType, order: target.order, device: target.device,
                    registration: target.registration, records: records))
        }
    }

    private func receipt(_ offset: Int64) -> KafkaReceipt {
        KafkaRecord(
            topic: "load-test", partition: 0, offset: offset, timestampMilliseconds: -1, key: nil, value: nil
        ).receipt
    }
}
