import Testing

@testable import Kafka

/// The decision whether a delivery is tried while Kafka may be away.
@Suite struct KafkaCircuitBreakerTests {
    @Test func aFailedDeliveryLimitsTheCircuitBreakerToOneRequest() {
        var gate = KafkaCircuitBreaker.State(limit: 3)
        let first = [gate.enter(), gate.enter(), gate.enter(), gate.enter()]
        #expect(first == [true, true, true, false])
        gate.leave(after: .timedOut)
        // Two requests still wait, so no other tries.
        var second = [gate.enter()]
        gate.leave(after: .transport)
        gate.leave(after: .timedOut)
        second += [gate.enter(), gate.enter()]
        #expect(second == [false, true, false])
        gate.leave(after: nil)
        let third = [gate.enter(), gate.enter(), gate.enter(), gate.enter()]
        #expect(third == [true, true, true, false])
    }

    /// One shop's order that is larger than the topic takes must not refuse the others' changes.
    @Test func aMessageThatIsTooLargeSaysNothingAboutKafka() {
        var gate = KafkaCircuitBreaker.State(limit: 2)
        var entered = [gate.enter()]
        gate.leave(after: .messageTooLarge)
        entered += [gate.enter(), gate.enter()]
        #expect(entered == [true, true, true])
        gate.leave(after: .transport)
        gate.leave(after: .messageTooLarge)
        entered = [gate.enter(), gate.enter()]
        #expect(entered == [true, false], "Kafka is still away")
    }
}
