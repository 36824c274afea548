import Logging
import Model
import Operations
import Testing

@testable import Pusher

/// The reports to readiness about credentials.
@Suite struct PushJournalTests {
    private let readiness = Readiness(conditions: [])
    private var journal: PushJournal {
        PushJournal(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, readiness: self.readiness)
    }

    @Test func whatIsSaidOfACredentialEndsWithIt() throws {
        let journal = self.journal
        journal.changed("order.com.example.a", .health(.ill(reason: "500")))
        journal.changed("order.com.example.b", .health(.ill(reason: "silent")))
        #expect(self.readiness.remarks == ["apns: order.com.example.a: 500, and 1 more"])
        #expect(self.readiness.reasons.isEmpty, "another process could do no more")
        journal.renewed(try OrderTypeIdentifier("order.com.example.a"))
        #expect(self.readiness.remarks == ["apns: order.com.example.b: silent"])
        journal.renewed(try OrderTypeIdentifier("order.com.example.b"))
        #expect(self.readiness.remarks.isEmpty)
    }

    @Test func whoeverTellsLastIsRight() async {
        let journal = self.journal
        let later = ContinuousClock.now + PushJournal.patience
        await withTaskGroup { group in
            for upstream in PushJournal.Upstream.allCases {
                group.addTask {
                    for _ in 0..<2_000 {
                        journal.isAway(upstream, "away")
                        journal.isAway(upstream, "away", now: later)
                        journal.isBack(upstream)
                    }
                }
            }
        }
        #expect(self.readiness.reasons.isEmpty)
    }

    @Test func anApnsThatRefusesTheCredentialIsNotAway() {
        let journal = self.journal
        journal.changed("order.com.example.a", .health(.ill(reason: "500")))
        journal.changed("order.com.example.a", .health(.stopped(reason: "403 BadCertificate")))
        #expect(self.readiness.remarks.isEmpty)
    }
}
