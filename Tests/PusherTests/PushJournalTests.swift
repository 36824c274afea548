import Logging
import Model
import Operations
import Testing

@testable import Pusher

/// What readiness hears of credentials.
@Suite struct PushJournalTests {
    private let readiness = Readiness(conditions: [])
    private var journal: PushJournal {
        PushJournal(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, readiness: self.readiness)
    }

    @Test func whatIsSaidOfACredentialEndsWithIt() throws {
        let journal = self.journal
        journal.changed("order.com.example.a", .health(.ill(reason: "500")))
        journal.changed("order.com.example.b", .health(.ill(reason: "silent")))
        #expect(self.readiness.reasons == ["apns: order.com.example.a: 500"])
        journal.renewed(try OrderTypeIdentifier("order.com.example.a"))
        #expect(self.readiness.reasons == ["apns: order.com.example.b: silent"])
        journal.renewed(try OrderTypeIdentifier("order.com.example.b"))
        #expect(self.readiness.reasons.isEmpty)
    }

    @Test func anApnsThatRefusesTheCredentialIsNotAway() {
        let journal = self.journal
        journal.changed("order.com.example.a", .health(.ill(reason: "500")))
        journal.changed("order.com.example.a", .health(.stopped(reason: "403 BadCertificate")))
        #expect(self.readiness.reasons.isEmpty)
    }
}
