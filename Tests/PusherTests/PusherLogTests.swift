import Logging
import Model
import Operations
import Testing

@testable import Pusher

/// The reports to readiness about credentials.
@Suite struct PusherLogTests {
    private let readiness = Readiness(conditions: [])
    private var log: PusherLog {
        PusherLog(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, readiness: self.readiness)
    }

    @Test func aRenewedCredentialClearsItsRemark() throws {
        let log = self.log
        log.changed("order.com.example.a", .health(.ill(reason: "500")))
        log.changed("order.com.example.b", .health(.ill(reason: "silent")))
        #expect(self.readiness.remarks == ["apns: order.com.example.a: 500, and 1 more"])
        #expect(self.readiness.reasons.isEmpty, "another process could do no more")
        log.renewed(try OrderTypeIdentifier("order.com.example.a"))
        #expect(self.readiness.remarks == ["apns: order.com.example.b: silent"])
        log.renewed(try OrderTypeIdentifier("order.com.example.b"))
        #expect(self.readiness.remarks.isEmpty)
    }

    @Test func theLastReportOfAnUpstreamWins() async {
        let log = self.log
        let later = MonotonicTime.now + PusherLog.patience
        await withTaskGroup { group in
            for upstream in PusherLog.Upstream.allCases {
                group.addTask {
                    for _ in 0..<2_000 {
                        log.isAway(upstream, "away")
                        log.isAway(upstream, "away", now: later)
                        log.isBack(upstream)
                    }
                }
            }
        }
        #expect(self.readiness.remarks.isEmpty)
    }

    @Test func aRefusedCredentialIsNotReportedAsAnAPNsOutage() {
        let log = self.log
        log.changed("order.com.example.a", .health(.ill(reason: "500")))
        log.changed("order.com.example.a", .health(.stopped(reason: "403 BadCertificate")))
        #expect(self.readiness.remarks.isEmpty)
    }
}
