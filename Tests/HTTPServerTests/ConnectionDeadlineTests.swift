import NIOCore
import NIOEmbedded
import TestKit
import Testing

@testable import HTTPServer

@Suite struct ConnectionDeadlineTests {
    /// Seconds since the test began at which the deadline was hit.
    final class Hits {
        var seconds: [Int64] = []
        var then: (() -> Void)?
    }

    private static func made(_ loop: EmbeddedEventLoop) -> (ConnectionDeadline, Hits) {
        let hits = Hits()
        let deadline = ConnectionDeadline(on: loop) {
            hits.seconds.append(Int64(loop.now.uptimeNanoseconds / 1_000_000_000))
            hits.then?()
        }
        return (deadline, hits)
    }

    @Test func theLastMoveCounts() {
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        for moment: Int64 in [60, 90, 5, 7] { deadline.move(to: .seconds(moment)) }
        loop.advanceTime(by: .seconds(6))
        #expect(hits.seconds.isEmpty)
        loop.advanceTime(by: .seconds(200))
        #expect(hits.seconds == [7])
        #expect(deadline.moment == nil)
    }

    @Test func itMayBeMovedWhenItIsHit() {
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        hits.then = { deadline.move(to: loop.now + .seconds(30)) }
        deadline.move(to: .seconds(30))
        loop.advanceTime(by: .seconds(100))
        #expect(hits.seconds == [30, 60, 90])
        deadline.drop()
    }

    @Test func aDroppedOneIsNeitherHitNorKept() {
        let loop = EmbeddedEventLoop()
        weak var weakDeadline: ConnectionDeadline?
        weak var weakHits: Hits?
        do {
            let (deadline, hits) = Self.made(loop)
            (weakDeadline, weakHits) = (deadline, hits)
            deadline.move(to: .seconds(60))
            deadline.move(to: .seconds(1))
            deadline.drop()
            deadline.move(to: .seconds(2))
        }
        #expect(weakHits == nil)
        loop.advanceTime(by: ConnectionDeadline.span)
        #expect(weakDeadline == nil)
    }

    @Test(arguments: 0..<50) func itIsHitWheneverItsMomentComes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        var expected: [Int64] = []
        var now: Int64 = 0
        for _ in 0..<200 {
            let moment = now + .random(in: 1...40, using: &random)
            deadline.move(to: .seconds(moment))
            let step = Int64.random(in: 0...20, using: &random)
            loop.advanceTime(by: .seconds(step))
            now += step
            if moment <= now { expected.append(moment) }
        }
        #expect(hits.seconds == expected)
        deadline.drop()
    }
}

extension NIODeadline {
    fileprivate static func seconds(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(seconds) }
}
