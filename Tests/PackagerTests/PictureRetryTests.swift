import Testing

@testable import Packager

@Suite struct PictureRetryTests {
    private let retry = PictureRetry()

    /// Returns all pauses until it is given up.
    private func pauses(_ failure: PictureFailure) -> [Duration] {
        var pauses: [Duration] = []
        while case .again(let pause) = self.retry.step(after: failure, attempts: Int64(pauses.count + 1)) {
            pauses.append(pause)
        }
        return pauses
    }

    @Test(arguments: PictureFailure.allCases) func everyFailureIsGivenUpAfterAFewRetries(_ failure: PictureFailure) {
        let pauses = self.pauses(failure)
        #expect((4...12).contains(pauses.count))
        #expect(pauses == pauses.sorted())
        #expect(pauses.reduce(.zero, +) >= .seconds(2 * 3600))
    }

    @Test func aTemporaryFailureIsRetriedSoon() {
        #expect(self.pauses(.timeout).prefix(3) == [.seconds(2), .seconds(4), .seconds(8)])
        #expect(self.pauses(.timeout).max() == .seconds(3600))
    }

    /// A picture comes with the next order, a document with none.
    @Test func aDocumentIsAwaitedForADay() {
        var total = Duration.zero
        for attempt in 1...100 {
            guard case .again(let pause) = PictureRetry.ofDocuments.step(after: .timeout, attempts: Int64(attempt))
            else {
                break
            }
            total += pause
        }
        #expect((.seconds(23 * 3600)...(.seconds(26 * 3600))).contains(total))
    }

    @Test func aMissingPictureIsRetriedAfterAMinute() { #expect(self.pauses(.notFound).first == .seconds(60)) }

    @Test func retryAfterIsHonoredUpToAnHour() {
        #expect(
            self.retry.step(after: .serverError, attempts: 1, retryAfterSeconds: 120) == .again(after: .seconds(120)))
        #expect(
            self.retry.step(after: .serverError, attempts: 1, retryAfterSeconds: .max) == .again(after: .seconds(3600)))
        #expect(self.retry.step(after: .serverError, attempts: 1, retryAfterSeconds: -1) == .again(after: .seconds(2)))
    }

    @Test(arguments: [Int64.min, -1, 0, 1, 1000, .max]) func anyAttemptCountIsAccepted(_ attempts: Int64) {
        for failure in PictureFailure.allCases { _ = self.retry.step(after: failure, attempts: attempts) }
    }

    @Test func aLoggedURLOmitsItsQueryAndFragment() {
        #expect(PictureFetchJob.shown("https://cdn.example.com/a.png?key=1#x") == "https://cdn.example.com/a.png")
    }
}
