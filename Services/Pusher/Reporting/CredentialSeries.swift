import APNS
import Model

/// One series of a credential's metrics that is made on first use.
///
/// The labels come from closed sets: undocumented values that a peer sends become `other`.
enum CredentialSeries: Hashable, Sendable {
    /// Connections that were made.
    case connected
    /// Connections that could not be made, or that ended without our closing them, by the code of the error.
    case disconnected(APNSError.Code)
    /// GOAWAY frames, by APNs' reason and the frame's code.
    case goAway(reason: String, code: String)
    /// Announcements of another stream limit.
    case settings
    /// Requests that APNs left unprocessed.
    case refusedStreams
    /// Connections that were replaced by others.
    case replaced(APNSEvent.Replacement)
    /// Requests by outcome.
    case requests(status: String, reason: String)
    /// Dead letters by their code.
    case deadLetters(PushDeadLetterCode)
    case connections(APNSSnapshot.ConnectionState)
    case streamsInUse
    case streamLimit
    case queued
    case oldestQueuedSeconds
    /// Orders, or devices of them, that wait until there is room or APNs can be reached.
    case pending

    /// The metric's name.
    var name: String {
        switch self {
        case .connected: "waybill_apns_connected_total"
        case .disconnected: "waybill_apns_disconnected_total"
        case .goAway: "waybill_apns_goaways_total"
        case .settings: "waybill_apns_settings_changes_total"
        case .refusedStreams: "waybill_apns_refused_streams_total"
        case .replaced: "waybill_apns_connections_replaced_total"
        case .requests: "waybill_apns_requests_total"
        case .deadLetters: "waybill_push_dead_letters_total"
        case .connections: "waybill_apns_connections"
        case .streamsInUse: "waybill_apns_streams_in_use"
        case .streamLimit: "waybill_apns_stream_limit"
        case .queued: "waybill_apns_queued"
        case .oldestQueuedSeconds: "waybill_apns_queue_oldest_seconds"
        case .pending: "waybill_push_pending"
        }
    }

    /// The labels besides those of its credential.
    var dimensions: [(String, String)] {
        switch self {
        case .disconnected(let code): [("reason", code.rawValue)]
        case .goAway(let reason, let code): [("reason", reason), ("code", code)]
        case .replaced(let reason): [("reason", reason.rawValue)]
        case .requests(let status, let reason): [("status", status), ("reason", reason)]
        case .deadLetters(let code): [("code", code.rawValue)]
        case .connections(let state): [("state", state.rawValue)]
        case .connected, .settings, .refusedStreams, .streamsInUse, .streamLimit, .queued, .oldestQueuedSeconds,
            .pending:
            []
        }
    }
}

extension CredentialSeries {
    /// The series of one request's outcome.
    ///
    /// A reason counts only with the status that it is documented for, as with the verdicts.
    /// Source: Wallet Orders §4.6
    init(_ outcome: PushOutcome) {
        switch outcome {
        case .unanswered(let error): self = .requests(status: "none", reason: error.code.rawValue)
        case .answered(let answer) where answer.isForeign:
            self = .requests(status: Self.label(answer.status), reason: "not-apns")
        case .answered(let answer): self.init(status: answer.status, reason: answer.reason)
        }
    }

    /// The series of one request that was answered.
    init(status: Int, reason: String?) {
        let documented = reason.flatMap(PushReason.init(rawValue:)).flatMap { $0.status == status ? $0.rawValue : nil }
        self = .requests(
            status: Self.label(status), reason: reason == nil ? "none" : documented ?? Self.other)
    }

    /// The series of a GOAWAY. Source: Wallet Orders §4.5; RFC 9113 §7
    init(goAway reason: String?, code: String) {
        let documented = reason.map { PushReason(rawValue: $0)?.rawValue ?? Self.other } ?? "none"
        self = .goAway(reason: documented, code: Self.frameCodes.contains(code) ? code : Self.other)
    }

    private static func label(_ status: Int) -> String {
        Self.statuses.contains(status) ? String(status) : Self.other
    }

    private static let other = "other"
    private static let statuses: Set<Int> = Set(PushReason.allCases.map(\.status)).union([200])

    /// Source: RFC 9113 §7
    private static let frameCodes: Set<String> = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
}
