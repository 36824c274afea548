import CoreMetrics
import NIOHTTP1
import Operations

/// The metrics of the checkout role, named in one place.
struct CheckoutMetrics: Sendable {
    /// The routes, as labels.
    enum Route: String, CaseIterable, Sendable {
        case orderDetails = "order-details"
        case grants, links, orders, sources
        case grantedDetails = "granted-details"
        case confirm, notify, metadata, basket, payment
        case postalCode = "postal-code"
        case validate, association, files, preflight
        /// The requested resource is not known.
        case none
    }

    /// The outcome of a request, as a label.
    enum Outcome: String, CaseIterable, Sendable {
        case done
        /// The caller must act differently.
        case refused
        /// The role failed, or a service that it depends on.
        case failed

        init(_ status: HTTPResponseStatus) {
            self = status.code < 400 ? .done : status.code < 500 ? .refused : .failed
        }
    }

    /// The outcome of a webhook's event, as a label.
    enum Event: String, CaseIterable, Sendable {
        case taken
        case signatureRefused = "signature_refused"
        case bodyTooLarge = "body_too_large"
        case unavailable
        /// Any other refusal.
        case refused

        init(_ status: HTTPResponseStatus) {
            switch status.code {
            case ..<400: self = .taken
            case 401, 429: self = .signatureRefused
            case 413: self = .bodyTooLarge
            case 500...: self = .unavailable
            default: self = .refused
            }
        }
    }

    /// The outcome of publishing a change, as a label.
    enum Publication: String, CaseIterable, Sendable { case published, failed }

    /// The signature of a webhook's event, as a label.
    enum Signature: String, CaseIterable, Sendable {
        case first
        /// It came within the last day, and the event is accepted or being written.
        case repeated
        /// Redis did not answer.
        case unchecked
    }

    let merchantsState: ReloadState
    private let factory: any MetricsFactory
    private let durations: [Route: Timer]
    private let publications: [Publication: Counter]

    init(factory: any MetricsFactory) {
        self.factory = factory
        self.merchantsState = ReloadState("merchants", factory: factory)
        self.durations = Route.allCases.reduce(into: [:]) { durations, route in
            durations[route] = Timer(
                label: "waybill_checkout_request_seconds", dimensions: [("route", route.rawValue)], factory: factory)
        }
        self.publications = Publication.allCases.reduce(into: [:]) { publications, outcome in
            publications[outcome] = Counter(
                label: "waybill_checkout_changes_total", dimensions: [("outcome", outcome.rawValue)], factory: factory)
        }
    }

    /// - Parameters:
    ///   - merchant: the name of a configured merchant.
    ///   - seconds: the last second of its identity certificate, since 1970; nil if it has none.
    func certificateEnds(merchant: String, epochSeconds seconds: Int64?) {
        let meter = CertificateExpiry.meter(
            owner: "merchant \(merchant)", certificate: "identity", factory: self.factory)
        if let seconds { meter.set(seconds) } else { meter.destroy() }
    }

    /// - Parameters:
    ///   - merchant: the name of a merchant's directory.
    ///   - hasFailed: true while it cannot be loaded; nil if it is gone.
    func loadFailed(merchant: String, _ hasFailed: Bool?) {
        let meter = Meter(
            label: "waybill_merchant_load_failed", dimensions: [("merchant", merchant)], factory: self.factory)
        if let hasFailed { meter.set(hasFailed ? 1 : 0) } else { meter.destroy() }
    }

    /// - Parameter merchant: the name of a configured merchant; nil for none.
    func answered(_ route: Route, merchant: String?, _ status: HTTPResponseStatus, nanoseconds: Int64) {
        self.durations[route]?.recordNanoseconds(nanoseconds)
        // The registry keeps one counter for each name and set of labels; only configured merchants are labels.
        Counter(
            label: "waybill_checkout_requests_total",
            dimensions: [
                ("route", route.rawValue), ("merchant", merchant ?? "none"), ("outcome", Outcome(status).rawValue),
            ], factory: self.factory
        ).increment()
    }

    /// - Parameter source: the name of a configured webhook.
    func signed(_ source: String, _ signature: Signature) {
        Counter(
            label: "waybill_webhook_signatures_total",
            dimensions: [("source", source), ("outcome", signature.rawValue)], factory: self.factory
        ).increment()
    }

    /// Makes the counters of a webhook, from 0: the first refusal must show as a growth.
    func loaded(webhook: String) { for event in Event.allCases { _ = self.counter(webhook, event) } }

    /// - Parameter webhook: the name of a configured webhook.
    func answered(webhook: String, _ status: HTTPResponseStatus) { self.counter(webhook, Event(status)).increment() }

    private func counter(_ webhook: String, _ event: Event) -> Counter {
        Counter(
            label: "waybill_webhook_events_total", dimensions: [("source", webhook), ("outcome", event.rawValue)],
            factory: self.factory)
    }

    func changed(_ outcome: Publication) { self.publications[outcome]?.increment() }
}
