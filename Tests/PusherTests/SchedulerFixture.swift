import APNS
import Kafka
import Model

@testable import Pusher

/// A scheduler with a manual clock, one brand, and devices by number.
struct SchedulerFixture {
    static let order = "order.com.example.shop"
    static let pending = "pending"
    /// Milliseconds since 1970 when the clock is at 0.
    static let noon: Int64 = 1_767_268_800_000

    var scheduler: PushStateMachine
    let start = MonotonicTime.now
    /// The time on the clock, in milliseconds.
    var time = 0
    let queue: Int
    private var offsets: [Int32: Int64] = [:]

    var now: MonotonicTime { self.start + .milliseconds(self.time) }
    var epochMilliseconds: Int64 { Self.noon + Int64(self.time) }

    init(_ change: (inout PushLimits) -> Void = { _ in }) throws {
        var limits = PushLimits()
        limits.hourlyLimit = 0
        change(&limits)
        self.scheduler = PushStateMachine(limits: limits, pendingTopic: Self.pending, now: self.start)
        self.queue = self.scheduler.open(try OrderTypeIdentifier(Self.order), generation: 1)
    }

    static func token(_ device: Int) throws -> PushToken {
        let digits = String(device, radix: 16)
        return try PushToken(String(repeating: "0", count: 64 - digits.count) + digits)
    }

    /// Adds a record that concerns some devices; all of them are found immediately.
    @discardableResult
    mutating func change(
        _ order: String = "o", for devices: [Int], topic: String = "orders", partition: Int32 = 0,
        registered: Int64 = 0
    ) throws -> KafkaReceipt {
        let (receipt, number) = self.take(topic: topic, partition: partition)
        for device in devices { try self.find(device, order, number, registered: registered) }
        self.scheduler.endLookup([number])
        return receipt
    }

    /// Adds a record whose devices are not looked up yet.
    mutating func take(topic: String = "orders", partition: Int32 = 0) -> (receipt: KafkaReceipt, number: Int32) {
        let offset = self.offsets[partition, default: 0]
        self.offsets[partition] = offset + 1
        let receipt = KafkaRecord(
            topic: topic, partition: partition, offset: offset, timestampMilliseconds: 0, key: nil, value: nil
        ).receipt
        return (receipt, self.scheduler.receive([(receipt, self.epochMilliseconds)])[0])
    }

    mutating func find(_ device: Int, _ order: String, _ number: Int32, registered: Int64 = 0) throws {
        let link = PushStateMachine.Link(
            record: number, device: try DeviceIdentifier("d\(device)"), order: try OrderIdentifier(order),
            registeredEpochMilliseconds: registered)
        self.scheduler.notify(try Self.token(device), of: link, in: self.queue, now: self.now)
    }

    /// Returns the notifications sent at this time.
    mutating func send() -> [PushStateMachine.Due] {
        self.scheduler.wake(now: self.now)
        return self.scheduler.send(self.queue, now: self.now, epochMilliseconds: self.epochMilliseconds)
    }

    @discardableResult
    mutating func reply(_ number: UInt64, _ outcome: PushOutcome, generation: Int = 1) -> PushEffect? {
        self.scheduler.receive(
            PushReply(number: number, outcome: outcome, elapsed: nil), queue: self.queue, generation: generation,
            now: self.now, epochMilliseconds: self.epochMilliseconds, jitter: 0)
    }

    /// Reports an effect as done.
    @discardableResult
    mutating func done(_ effect: PushEffect, current: [RegistrationKey: RegistrationRecord] = [:]) -> PushEffect? {
        self.scheduler.done(effect, current: current, now: self.now, jitter: 0)
    }

    static let delivered = PushOutcome.answered(PushAnswer(status: 200))
    static func answer(_ status: Int, _ reason: String, at milliseconds: Int64? = nil) -> PushOutcome {
        .answered(PushAnswer(status: status, reason: reason, timestampMilliseconds: milliseconds))
    }
    static let busyDevice = Self.answer(429, "TooManyRequests")
    static let away = PushOutcome.unanswered(APNSError(.connectionLost, "cut"))
}
