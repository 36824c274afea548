import NIOCore
import Testing

@testable import APNS

@Suite struct ConnectBackoffTests {
    @Test func theFirstWaitIsQuickAndTheOthersDoubleUpToAMinute() {
        let backoff = ConnectBackoff()
        #expect(backoff.delay(attempt: 0, jitter: 1) == .milliseconds(100))
        #expect(backoff.delay(attempt: 0, jitter: 0) == .zero)
        let longest = (1...8).map { backoff.delay(attempt: $0, jitter: 1) }
        #expect(longest == [1, 2, 4, 8, 16, 32, 60, 60].map { .seconds($0) })
        #expect(backoff.delay(attempt: 3, jitter: 0) == .seconds(2))
        #expect(backoff.delay(attempt: .max, jitter: 7) == .seconds(60))
    }
}
