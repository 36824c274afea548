import TestTraits
import Testing

@testable import TestKit

/// The answers that count as possibly unread when a connection ends.
@Suite(APNSSimulatorFixture.Once()) struct APNSSimulatorUnheardTests {
    @Test func anAnswerCountsAsReadASecondAfterItWasWritten() {
        var unheard = APNSSimulatorUnheard()
        for stream in 1...3 { unheard.decided(UInt64(stream), stream: stream) }
        unheard.answered(stream: 1, isHeld: false, nowEpochMilliseconds: 10_000)
        unheard.answered(stream: 2, isHeld: false, nowEpochMilliseconds: 10_900)
        #expect(unheard.ended(nowEpochMilliseconds: 11_001) == [2, 3])
    }

    @Test func anAnswerThatIsHeldBackNeverCountsAsRead() {
        var unheard = APNSSimulatorUnheard()
        unheard.decided(1, stream: 1)
        unheard.answered(stream: 1, isHeld: true, nowEpochMilliseconds: 0)
        #expect(unheard.ended(nowEpochMilliseconds: 60_000) == [1])
    }

    @Test func onlyAnswersOfTheLastSecondCountAsUnread() {
        var unheard = APNSSimulatorUnheard()
        for stream in 0..<10_000 {
            unheard.decided(UInt64(stream), stream: stream)
            unheard.answered(stream: stream, isHeld: false, nowEpochMilliseconds: Int64(stream) * 10)
        }
        #expect(unheard.ended(nowEpochMilliseconds: 100_000) == Array(9900..<10_000))
    }

    @Test(.server) func anAnswerThatIsHeldBackUntilTheConnectionEndsIsListed() async throws {
        try await APNSSimulatorFixture.run { fixture in
            #expect(try await fixture.push().status == 200)
            try await fixture.simulator.add(APNSSimulatorFault(.delay(milliseconds: 20_000), count: 1))
            #expect(try await fixture.push(["-m", "1"]).text.contains("curl: (28)"))
            let deadline = ContinuousClock.now + .seconds(20)
            var listed = ""
            while !listed.contains("2"), ContinuousClock.now < deadline {
                listed = try await fixture.admin("unheard").text
            }
            // The first answer counts too, because curl closed its connection right after it.
            #expect(listed.contains(#"{"deliveries":[1,2],"dropped":0}"#), "\(listed)")
        }
    }
}
