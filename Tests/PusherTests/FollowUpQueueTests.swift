import Kafka
import Model
import Testing

@testable import Pusher

@Suite(.timeLimit(.minutes(1))) struct FollowUpQueueTests {
    private static func deadLetter(_ number: UInt64) throws -> PushEffect {
        let deadLetter = PushDeadLetter(
            .refused, "400", registration: try RegistrationKey("d/order.com.example/o"),
            origin: KafkaPosition(topic: "waybill.orders", partition: 0, offset: 0))
        return PushEffect(number: number, work: .report([deadLetter]))
    }

    private static func retirement(_ number: UInt64) throws -> PushEffect {
        let dead = InvalidToken(token: try SchedulerFixture.token(1), moment: 1, registrations: [:])
        return PushEffect(number: number, work: .retire(dead))
    }

    @Test func blockedDeadLettersDoNotBlockRetirements() async throws {
        let queue = FollowUpQueue(mostDeadLetters: 2)
        queue.add(try (0..<5).map { try Self.deadLetter($0) })
        queue.add([try Self.retirement(100)])
        // Three workers take items, and no dead letter ends.
        let taken = await [queue.next(), queue.next(), queue.next()]
        #expect(taken.map { $0?.number } == [0, 1, 100])
        #expect(queue.count == 6)
        async let waiting = queue.next()
        queue.add([try Self.retirement(101)])
        #expect(await waiting?.number == 101)
        queue.ended(try #require(taken[0]))
        #expect(await queue.next()?.number == 2)
        async let last = queue.next()
        queue.end()
        #expect(await last?.number == nil)
    }
}
