import NIOCore
import Testing

@testable import APNS

private func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(1_000 + seconds) }

@Suite struct PushQueueTests {
    private func queue(limit: Int = 10) -> PushQueue<Int> {
        PushQueue(limit: limit, requestTimeout: .seconds(10), queueTimeout: .seconds(60))
    }

    @Test func theQueueIsBoundedAndKeepsItsOrder() {
        var queue = self.queue(limit: 2)
        let taken = [1, 2, 3].map { queue.append($0, now: at(0)) }
        #expect(taken == [true, true, false])
        let elements = (0..<3).map { _ in queue.next()?.element }
        #expect(elements == [1, 2, nil])
    }

    @Test func aRefusedRequestGoesFirstEvenIntoAFullQueue() {
        var queue = self.queue(limit: 1)
        _ = queue.append(1, now: at(0))
        guard let first = queue.next() else { return }
        _ = queue.append(2, now: at(0))
        queue.putBack(first)
        #expect(queue.takeAll().map(\.element) == [1, 2])
        #expect(queue.isEmpty)
    }

    @Test func aStalledQueueExpiresItsRequestsAfterTheTimeout() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        _ = queue.append(2, now: at(5))
        #expect(queue.takeExpired(now: at(9)).isEmpty)
        #expect(queue.takeExpired(now: at(10)).map(\.element) == [1])
        #expect(queue.takeExpired(now: at(15)).map(\.element) == [2])
    }

    @Test func aMovingQueueExpiresItsRequestsAfterAMinute() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        for second in stride(from: Int64(1), through: 59, by: 1) {
            queue.progressed(now: at(second))
            #expect(queue.takeExpired(now: at(second)).isEmpty)
        }
        #expect(queue.takeExpired(now: at(60)).map(\.element) == [1])
    }

    @Test func aRetryHasTheDeadlineOfItsFirstStart() {
        var queue = self.queue()
        _ = queue.append(1, now: at(0))
        guard var entry = queue.next() else { return }
        entry.started = at(2)
        queue.putBack(entry)
        queue.progressed(now: at(11))
        #expect(queue.takeExpired(now: at(11)).isEmpty)
        #expect(queue.takeExpired(now: at(12)).map(\.element) == [1])
    }
}
