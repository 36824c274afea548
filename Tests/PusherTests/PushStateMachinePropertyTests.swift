import APNS
import Kafka
import Model
import TestKit
import Testing

@testable import Pusher

/// The invariants that must hold for any events in any order.
@Suite struct PushStateMachinePropertyTests {
    /// The observations of an independent observer.
    private struct Onlooker {
        /// The time when each device was notified of each record.
        var notifications: [KafkaReceipt: [Int: Int]] = [:]
        /// The time when each device was last notified.
        var sent: [Int: Int] = [:]
        /// Notifications in flight: the device, and the time of sending.
        var flying: [UInt64: (device: Int, sent: Int)] = [:]
        var settling: [(effect: PushEffect, device: Int, sent: Int)] = []
        /// The time of sending of the last completed notification of each device.
        var ended: [Int: Int] = [:]
        /// The time when a device's registration was removed: earlier changes end with it.
        var retired: [Int: Int] = [:]
        var retrying: Set<Int> = []
        var letGo: Set<KafkaReceipt> = []
        var finished: Set<KafkaReceipt> = []
    }

    private static let outcomes: [PushOutcome] = [
        SchedulerFixture.delivered, SchedulerFixture.delivered, SchedulerFixture.delivered, SchedulerFixture.delivered,
        SchedulerFixture.busyDevice,
        SchedulerFixture.away, SchedulerFixture.answer(410, "Unregistered", at: 50),
        SchedulerFixture.answer(410, "Unregistered", at: 0),
        SchedulerFixture.answer(500, "InternalServerError"), SchedulerFixture.answer(400, "BadDeviceToken"),
        SchedulerFixture.answer(400, "PayloadEmpty"), SchedulerFixture.answer(403, "BadCertificate"),
        .unanswered(APNSError(.timeout, "late")), .unanswered(APNSError(.closed, "closed")),
    ]

    private func device(_ token: PushToken) -> Int { Int(token.rawValue, radix: 16) ?? -1 }

    private func look(_ fixture: inout SchedulerFixture, _ eye: inout Onlooker) {
        for receipt in fixture.scheduler.takeFinished() {
            #expect(eye.finished.insert(receipt).inserted, "\(receipt.origin) is done twice")
            #expect(!eye.letGo.contains(receipt), "\(receipt.origin) was let go of")
            for (device, notified) in eye.notifications[receipt] ?? [:] {
                let last = max(eye.ended[device, default: -1], eye.retired[device, default: -1])
                #expect(last >= notified, "\(receipt.origin): \(device) was not notified after it")
            }
        }
    }

    private func send(_ fixture: inout SchedulerFixture, _ eye: inout Onlooker) {
        for due in fixture.send() {
            let device = self.device(due.token)
            #expect(!eye.flying.values.contains { $0.device == device }, "one at a time")
            if eye.retrying.remove(device) == nil, let last = eye.sent[device] {
                #expect(fixture.time >= last + 1000, "notified before the end of the window")
            }
            eye.sent[device] = fixture.time
            eye.flying[due.number] = (device, fixture.time)
        }
    }

    private func reply(
        _ fixture: inout SchedulerFixture, _ eye: inout Onlooker, _ number: UInt64, _ outcome: PushOutcome
    ) {
        guard let (device, sent) = eye.flying.removeValue(forKey: number) else { return }
        let waiting = fixture.scheduler.gauges.waiting
        let before = fixture.scheduler.queues[0].counts.retried
        if let effect = fixture.reply(number, outcome) {
            eye.settling.append((effect, device, sent))
        } else if fixture.scheduler.queues[0].counts.retried > before {
            // Unless all of it went to another member meanwhile.
            if fixture.scheduler.gauges.waiting > waiting { eye.retrying.insert(device) }
        } else {
            eye.ended[device] = sent
        }
    }

    private func settle(_ fixture: inout SchedulerFixture, _ eye: inout Onlooker, _ index: Int) {
        let (effect, device, sent) = eye.settling.remove(at: index)
        var current: [RegistrationKey: RegistrationRecord] = [:]
        // Those that were registered since are present, all with the same token.
        if case .retire(let dead) = effect.work {
            current = dead.registrations.filter { !dead.means($0.value) }
            if current.isEmpty { eye.retired[device] = fixture.time }
        }
        let (waiting, before) = (fixture.scheduler.gauges.waiting, fixture.scheduler.queues[0].counts.retried)
        if let effect = fixture.done(effect, current: current) {
            eye.settling.append((effect, device, sent))
        } else if fixture.scheduler.queues[0].counts.retried > before {
            if fixture.scheduler.gauges.waiting > waiting { eye.retrying.insert(device) }
        } else {
            eye.ended[device] = sent
        }
    }

    private func revoke(_ partition: Int32, _ fixture: inout SchedulerFixture, _ eye: inout Onlooker) {
        for receipt in fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: partition)]) {
            #expect(eye.letGo.insert(receipt).inserted)
            #expect(!eye.finished.contains(receipt))
        }
    }

    /// Completes everything successfully from here on.
    private func drain(_ fixture: inout SchedulerFixture, _ eye: inout Onlooker) {
        for _ in 0..<400 {
            fixture.time += 2000
            self.send(&fixture, &eye)
            for number in eye.flying.keys.sorted() { self.reply(&fixture, &eye, number, SchedulerFixture.delivered) }
            while !eye.settling.isEmpty { self.settle(&fixture, &eye, 0) }
            self.look(&fixture, &eye)
        }
    }

    @Test(arguments: 0..<60)
    func everyRecordIsDoneOnceAfterAllItsDevicesAreNotified(seed: UInt64) throws {
        var dice = SeededGenerator(seed: seed)
        var fixture = try SchedulerFixture {
            $0.attempts = 3
            $0.inFlight = 4
        }
        var eye = Onlooker()
        var looking: [(receipt: KafkaReceipt, number: Int32)] = []
        for _ in 0..<600 {
            switch Int.random(in: 0..<20, using: &dice) {
            case 0..<6:
                let record = fixture.take(partition: Int32.random(in: 0..<3, using: &dice))
                eye.notifications[record.receipt] = [:]
                looking.append(record)
            case 6..<11:
                guard let (receipt, number) = looking.first else { continue }
                looking.removeFirst()
                let count = Int.random(in: 0..<4, using: &dice)
                for device in Set((0..<count).map { _ in Int.random(in: 1..<7, using: &dice) }) {
                    try fixture.find(device, "o", number, registered: Int64.random(in: 0..<100, using: &dice))
                    guard !eye.letGo.contains(receipt) else { continue }
                    eye.notifications[receipt]?[device] = fixture.time
                }
                fixture.scheduler.endLookup([number])
            case 11..<13: fixture.time += Int.random(in: 1..<700, using: &dice)
            case 13..<15: self.send(&fixture, &eye)
            case 15..<18:
                guard let number = eye.flying.keys.sorted().randomElement(using: &dice),
                    let outcome = Self.outcomes.randomElement(using: &dice)
                else { continue }
                self.reply(&fixture, &eye, number, outcome)
            case 18:
                if eye.settling.isEmpty { continue }
                self.settle(&fixture, &eye, Int.random(in: eye.settling.indices, using: &dice))
            default:
                if Int.random(in: 0..<10, using: &dice) == 0 {
                    self.revoke(Int32.random(in: 0..<3, using: &dice), &fixture, &eye)
                }
            }
            self.look(&fixture, &eye)
        }
        fixture.scheduler.endLookup(looking.map(\.number))
        self.drain(&fixture, &eye)
        let all = Set(eye.notifications.keys)
        // Records that had to be retried when their partition had left: the consumer asks until nothing is in hand.
        eye.letGo.formUnion(fixture.scheduler.drop([]))
        #expect(all.subtracting(eye.finished).subtracting(eye.letGo).count == 0)
        #expect(fixture.scheduler.gauges == PushGauges())
        #expect(fixture.scheduler.room > 0)
    }
}
