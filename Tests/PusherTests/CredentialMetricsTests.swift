import APNS
import Model
import Operations
import Testing

@testable import Pusher

/// The metrics that result from events of a credential.
@Suite struct CredentialMetricsTests {
    private static let host = "host=\"apns:443\""
    private static let labels = "credential=\"order.com.example.shop\",host=\"apns:443\""

    private func metrics(_ registry: MetricsRegistry) -> CredentialMetrics {
        PusherMetrics(factory: registry, host: "apns:443")["order.com.example.shop"]
    }

    /// Returns the lines of a metric, without the labels common to all.
    private func lines(_ registry: MetricsRegistry, _ name: String) -> [String] {
        registry.text.split(separator: "\n").filter { $0.hasPrefix("\(name){") }.map {
            String($0).replacing(Self.labels, with: "").replacing("{,", with: "{")
        }
    }

    @Test(arguments: PushReason.allCases)
    func eachDocumentedReasonIsALabelOnlyForItsOwnStatus(_ reason: PushReason) {
        #expect(
            CredentialSeries(status: reason.status, reason: reason.rawValue)
                == .requests(status: "\(reason.status)", reason: reason.rawValue))
        #expect(CredentialSeries(status: 200, reason: reason.rawValue) == .requests(status: "200", reason: "other"))
        #expect(CredentialSeries(status: 418, reason: reason.rawValue) == .requests(status: "other", reason: "other"))
    }

    @Test func unknownPeerValuesAreCountedAsOther() {
        #expect(CredentialSeries(status: 200, reason: nil) == .requests(status: "200", reason: "none"))
        #expect(CredentialSeries(status: 500, reason: nil) == .requests(status: "500", reason: "none"))
        for status in [Int.min, -1, 0, 99, 201, 600, 9999, Int.max] {
            #expect(CredentialSeries(status: status, reason: "x") == .requests(status: "other", reason: "other"))
        }
        #expect(CredentialSeries(goAway: "Shutdown", code: "NO_ERROR") == .goAway(reason: "Shutdown", code: "NO_ERROR"))
        #expect(CredentialSeries(goAway: nil, code: "HTTP/2 error 77") == .goAway(reason: "none", code: "other"))
        #expect(CredentialSeries(goAway: "a\"b", code: "no_error") == .goAway(reason: "other", code: "other"))
    }

    @Test(arguments: APNSError.Code.allCases)
    func anUnansweredRequestHasTheErrorCodeAsItsReason(_ code: APNSError.Code) {
        let outcome = PushOutcome.unanswered(APNSError(code, "secret text"))
        #expect(CredentialSeries(outcome) == .requests(status: "none", reason: code.rawValue))
        #expect(CredentialUpdate(.disconnected(APNSError(code, "x"))) == .count(.disconnected(code), by: 1))
    }

    @Test func eachEventMapsToOneUpdate() {
        #expect(CredentialUpdate(.connected) == .count(.connected, by: 1))
        #expect(CredentialUpdate(.streamLimit(1)) == .count(.settings, by: 1))
        #expect(CredentialUpdate(.refusedStreams(17)) == .count(.refusedStreams, by: 17))
        #expect(CredentialUpdate(.pingRoundTrip(.milliseconds(3))) == .roundTrip(.milliseconds(3)))
        for reason in APNSEvent.Replacement.allCases {
            #expect(CredentialUpdate(.replaced(reason)) == .count(.replaced(reason), by: 1))
        }
    }

    @Test func aSnapshotSetsEveryGauge() {
        var snapshot = APNSSnapshot()
        let none = CredentialUpdate.all(snapshot)
        #expect(none.count == APNSSnapshot.ConnectionState.allCases.count + 4)
        for update in none {
            guard case .set(_, to: 0) = update else {
                Issue.record("\(update)")
                continue
            }
        }
        snapshot.connections = [.open: 2, .draining: 1]
        snapshot.streamsInUse = 5
        snapshot.streamLimit = 2000
        snapshot.queued = 7
        snapshot.oldestQueued = .milliseconds(1500)
        #expect(
            Set(CredentialUpdate.all(snapshot)) == [
                .set(.connections(.connecting), to: 0), .set(.connections(.open), to: 2),
                .set(.connections(.draining), to: 1), .set(.connections(.backingOff), to: 0),
                .set(.streamsInUse, to: 5), .set(.streamLimit, to: 2000), .set(.queued, to: 7),
                .set(.oldestQueuedSeconds, to: 1.5),
            ])
    }

    @Test func answersAreCountedByStatusAndReason() {
        let registry = MetricsRegistry()
        let metrics = self.metrics(registry)
        for _ in 0..<3 { metrics.answered(.answered(PushAnswer(status: 200)), elapsed: .milliseconds(5)) }
        metrics.answered(.answered(PushAnswer(status: 410, reason: "Unregistered")), elapsed: .milliseconds(50))
        metrics.answered(.answered(PushAnswer(status: 503)), elapsed: .milliseconds(50))
        metrics.answered(
            .answered(PushAnswer(status: 499, reason: "Moon", apnsID: "x")), elapsed: .milliseconds(50))
        for (status, reason) in [(404, nil), (404, "Moon"), (301, nil)] as [(Int, String?)] {
            metrics.answered(.answered(PushAnswer(status: status, reason: reason)), elapsed: nil)
        }
        metrics.answered(.unanswered(APNSError(.notStarted, "x")), elapsed: nil)
        #expect(
            self.lines(registry, "waybill_apns_requests_total") == [
                "waybill_apns_requests_total{status=\"200\",reason=\"none\"} 3",
                "waybill_apns_requests_total{status=\"404\",reason=\"not-apns\"} 2",
                "waybill_apns_requests_total{status=\"410\",reason=\"Unregistered\"} 1",
                "waybill_apns_requests_total{status=\"503\",reason=\"none\"} 1",
                "waybill_apns_requests_total{status=\"none\",reason=\"notStarted\"} 1",
                "waybill_apns_requests_total{status=\"other\",reason=\"not-apns\"} 1",
                "waybill_apns_requests_total{status=\"other\",reason=\"other\"} 1",
            ])
        #expect(registry.text.contains("waybill_apns_answer_seconds_count{\(Self.host)} 6"))
    }

    @Test func outcomesDeadLettersAndAgesAreExported() {
        let registry = MetricsRegistry()
        let metrics = self.metrics(registry)
        for (index, outcome) in CredentialMetrics.Outcome.allCases.enumerated() { metrics.count(outcome, by: index) }
        metrics.count(.delivered, by: -5)
        metrics.retired(by: 2)
        metrics.deadLetter(.undeliverable)
        metrics.set(credential: 2, breaker: 1)
        var counts = PushCounts()
        counts.agesInMilliseconds = [Int64.min, -1, 0, 1, 15, 3_600_000, 3_600_001]
        metrics.count(counts)
        let outcomes = self.lines(registry, "waybill_pushes_total")
        #expect(outcomes.count == CredentialMetrics.Outcome.allCases.count)
        #expect(outcomes.contains("waybill_pushes_total{outcome=\"delivered\"} 0"))
        #expect(outcomes.contains("waybill_pushes_total{outcome=\"coalesced\"} 2"))
        #expect(self.lines(registry, "waybill_push_tokens_retired_total") == ["waybill_push_tokens_retired_total{} 2"])
        // All begin at zero: an alert on an increase misses a series that begins at one.
        let deadLetters = self.lines(registry, "waybill_push_dead_letters_total")
        #expect(deadLetters.count == PushDeadLetterCode.allCases.count)
        #expect(deadLetters.count { $0.hasSuffix(" 0") } == deadLetters.count - 1)
        #expect(deadLetters.contains("waybill_push_dead_letters_total{code=\"push-undeliverable\"} 1"))
        #expect(self.lines(registry, "waybill_push_credential_state") == ["waybill_push_credential_state{} 2.0"])
        #expect(self.lines(registry, "waybill_push_breaker_open") == ["waybill_push_breaker_open{} 1.0"])
        func below(_ bound: String) -> Bool {
            registry.text.contains("waybill_push_age_seconds_bucket{\(Self.host),le=\"\(bound)\"} ")
        }
        for bound in ["0.001", "0.015", "0.05", "1.0", "3600.0", "+Inf"] { #expect(below(bound), "\(bound)") }
        #expect(registry.text.contains("waybill_push_age_seconds_bucket{\(Self.host),le=\"0.001\"} 4"))
        #expect(registry.text.contains("waybill_push_age_seconds_bucket{\(Self.host),le=\"3600.0\"} 6"))
        #expect(CredentialMetrics.ageBounds == CredentialMetrics.ageBounds.sorted())
    }

    @Test func removingACredentialRemovesItsGaugesAndKeepsItsCounters() {
        let registry = MetricsRegistry()
        let all = PusherMetrics(factory: registry, host: "apns:443")
        for name in ["a", "b"] {
            all[name].count(.delivered)
            all[name].set(APNSSnapshot())
            all[name].set(credential: 0, breaker: 0)
        }
        #expect(all["a"] === all["a"])
        all.removeGauges(except: ["b"])
        func has(_ name: String, _ metric: String) -> Bool {
            registry.text.contains("\(metric){credential=\"\(name)\",host=\"apns:443\"")
        }
        for metric in ["waybill_apns_connections", "waybill_apns_queued", "waybill_push_credential_state"] {
            #expect(!has("a", metric), "\(metric)")
            #expect(has("b", metric), "\(metric)")
        }
        #expect(has("a", "waybill_pushes_total"))
        // It may come back.
        all["a"].set(APNSSnapshot())
        #expect(has("a", "waybill_apns_connections"))
    }
}

extension CredentialMetrics {
    /// Counts the outcome of one request.
    func answered(_ outcome: PushOutcome, elapsed: Duration?) {
        self.answered([PushReply(number: 0, outcome: outcome, elapsed: elapsed)])
    }
}
