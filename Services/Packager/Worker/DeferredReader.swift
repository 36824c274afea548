import Kafka
import Logging
import Operations
import Synchronization

/// Reads deferred records again, as far as there is room for them.
///
/// Owner: `KeyedWorker`; `run` ends when its task is cancelled, with the reader closed.
/// Bounded: `readers` partitions at once, each with a batch of `bytes` in hand and `readAhead` at librdkafka.
final class DeferredReader: Sendable {
    private static let readers = 2
    /// In KiB.
    private static let readAhead = 1024
    private static let records = 500
    private static let bytes = 1 << 20
    /// The interval at which it checks for room.
    private static let tick = Duration.milliseconds(100)

    private struct ReadingIsOver: Error {}

    private let driver: KeyQueueDriver
    private let ledger: any DeferralLedger
    private let configuration: KafkaConfiguration
    /// As for `KeyedWorker`.
    private let keyed: (@Sendable (KafkaRecord) -> [UInt8]?)?
    private let logger: Logger
    /// Made on first use, which may be never.
    private let reader = Mutex<KafkaReader?>(nil)

    init(
        _ driver: KeyQueueDriver, _ ledger: any DeferralLedger, _ configuration: KafkaConfiguration,
        keyed: (@Sendable (KafkaRecord) -> [UInt8]?)? = nil, logger: Logger
    ) {
        self.keyed = keyed
        self.driver = driver
        self.ledger = ledger
        self.configuration = configuration
        self.logger = logger
    }

    func run() async {
        await withTaskGroup { group in
            for _ in 0..<Self.readers { group.addTask { await self.readOn() } }
        }
        let reader = self.reader.withLock { reader in
            defer { reader = nil }
            return reader
        }
        await reader?.close()
    }

    private func readOn() async {
        var attempt = 0
        while !Task.isCancelled {
            guard var reading = self.driver.nextReading() else {
                try? await Task.sleep(for: Self.tick)
                continue
            }
            do {
                try await self.read(&reading)
                attempt = 0
            } catch {
                attempt += 1
                if !Task.isCancelled, attempt.nonzeroBitCount == 1 {
                    self.logger.warning("reading deferred records failed, retrying", metadata: ["error": "\(error)"])
                }
            }
            self.driver.end(reading)
            if attempt > 0 { try? await Task.sleep(for: backoff(attempt: attempt) { $0.upperBound }) }
        }
    }

    private func read(_ reading: inout DeferredRecords.Reading) async throws {
        let (partition, from) = (reading.partition, reading.from)
        do {
            try await self.opened().read(
                partition.topic, partition: partition.partition, from: from, to: reading.to, records: Self.records,
                bytes: Self.bytes
            ) { bounds in
                if bounds.first > from {
                    self.logger.error(
                        "the topic no longer has some deferred records; reading continues at a later offset",
                        metadata: ["partition": "\(partition)", "from": "\(from)", "first": "\(bounds.first)"])
                }
            } _: { records in
                let records = self.keyed.map { keyed in records.map { $0.keyed(keyed($0)) } } ?? records
                self.driver.addAgain(records, &reading, ledger: self.ledger)
                if reading.isOver { throw ReadingIsOver() }
            }
            self.driver.readToTheEnd(&reading, ledger: self.ledger)
        } catch is ReadingIsOver {
            return
        } catch let error as KafkaError where error.code == .outOfRange {
            self.logger.error(
                "deferred records are lost: the topic was recreated", metadata: ["error": "\(error)"])
            self.driver.forget(reading, ledger: self.ledger)
        }
    }

    private func opened() throws(KafkaError) -> KafkaReader {
        if let reader = self.reader.withLock({ $0 }) { return reader }
        let made = try KafkaReader(self.configuration, patience: .seconds(30), readAhead: Self.readAhead)
        return self.reader.withLock { reader in
            if let reader { return reader }
            reader = made
            return made
        }
    }
}

/// Lets a backlog be read before it is processed, so that many changes of one key become one piece of work.
///
/// It waits only with more records in hand than ever arrive together otherwise, only as long as more of them arrive,
/// and once for each backlog; two batches are in work during the reading.
struct BacklogLinger {
    /// The number of records in hand that is a backlog. More than a second's changes of a busy shop.
    static let backlog = 1024
    /// The longest time for reading before all of the work begins.
    static let longest = Duration.seconds(1)
    /// The time without a record after which everything counts as read.
    static let quiet = Duration.milliseconds(20)

    /// The time when the backlog began.
    private var began: ContinuousClock.Instant?

    /// Returns true if the work must wait.
    ///
    /// - Parameters:
    ///   - inHand: the number of records that are not done, including those that just arrived.
    ///   - came: the number of records that just arrived.
    mutating func isDue(inHand: Int, came: Int, now: ContinuousClock.Instant) -> Bool {
        guard inHand >= Self.backlog else {
            self.began = nil
            return false
        }
        let began = self.began ?? now
        self.began = began
        return came > 0 && now - began < Self.longest
    }
}
