import HTTPServer
import Model
import NIOCore
import NIOHTTP1

/// The reason why a request to the checkout role is refused.
///
/// The shape is that of the payment providers, and a superset of the gateway's: `{"error": {"code", "message", "type",
/// "param", "request_id", "details"}}`. The message quotes no value of the request; `details` may.
struct CheckoutFailure: Error, Hashable, Sendable {
    /// The reason, for programs.
    enum Code: String, CaseIterable, Sendable {
        case malformedRequest = "malformed_request"
        case malformedBody = "malformed_body"
        case missingParameter = "missing_parameter"
        case invalidParameter = "invalid_parameter"
        case validationURLRefused = "validation_url_refused"
        case keyRefused = "key_refused"
        case signatureRefused = "signature_refused"
        case scopeMissing = "scope_missing"
        case capabilityRequired = "capability_required"
        case originRefused = "origin_refused"
        case grantRefused = "grant_refused"
        case notFound = "not_found"
        case methodNotAllowed = "method_not_allowed"
        case requestTimeout = "request_timeout"
        case bodyTooLarge = "body_too_large"
        case targetTooLong = "target_too_long"
        case unsupportedMediaType = "unsupported_media_type"
        case expectationFailed = "expectation_failed"
        case fieldsTooLarge = "fields_too_large"
        case idempotencyConflict = "idempotency_conflict"
        case inProgress = "in_progress"
        case orderDetailsRefused = "order_details_refused"
        case orderInvalid = "order_invalid"
        case rateLimited = "rate_limited"
        case `internal`
        case notImplemented = "not_implemented"
        case versionNotSupported = "version_not_supported"
        case upstreamUnavailable = "upstream_unavailable"
        case upstreamInvalid = "upstream_invalid"
        case merchantSessionRefused = "merchant_session_refused"
        case unavailable
        case upstreamTimeout = "upstream_timeout"
        case outcomeUnknown = "outcome_unknown"

        var status: HTTPResponseStatus {
            switch self {
            case .malformedRequest, .malformedBody, .missingParameter, .invalidParameter, .validationURLRefused:
                .badRequest
            case .keyRefused, .signatureRefused: .unauthorized
            case .scopeMissing, .capabilityRequired, .originRefused, .grantRefused: .forbidden
            case .notFound: .notFound
            case .methodNotAllowed: .methodNotAllowed
            case .requestTimeout: .requestTimeout
            case .idempotencyConflict, .inProgress: .conflict
            case .bodyTooLarge: .payloadTooLarge
            case .targetTooLong: .uriTooLong
            case .unsupportedMediaType: .unsupportedMediaType
            case .expectationFailed: .expectationFailed
            case .orderDetailsRefused, .orderInvalid: .unprocessableEntity
            case .rateLimited: .tooManyRequests
            case .fieldsTooLarge: .requestHeaderFieldsTooLarge
            case .internal: .internalServerError
            case .notImplemented: .notImplemented
            case .versionNotSupported: .httpVersionNotSupported
            case .upstreamUnavailable, .upstreamInvalid, .merchantSessionRefused: .badGateway
            case .unavailable: .serviceUnavailable
            case .upstreamTimeout, .outcomeUnknown: .gatewayTimeout
            }
        }

        /// The coarse reason, as payment providers group them.
        var type: String {
            switch self.status {
            case .unauthorized, .forbidden: "authentication_error"
            case .conflict, .unprocessableEntity: "billing_error"
            case .tooManyRequests: "rate_limit_error"
            case let status where status.code >= 500: "api_error"
            default: "validation_error"
            }
        }
    }

    let code: Code
    /// A sentence for a person, without any text of the request.
    let message: String
    /// The invalid parameter, as the caller names it.
    var param: String?
    /// The invalid places in a document.
    var details: [Violation] = []
    /// Header fields of the answer.
    var headers: [String: String] = [:]
    /// True if the request may have taken effect all the same.
    var mayHaveActed: Bool
    /// True if it counts against the client's address.
    var isGuess = false

    init(_ code: Code, _ message: String, param: String? = nil) {
        self.code = code
        self.message = message
        self.param = param
        self.mayHaveActed = code == .outcomeUnknown
    }

    /// Makes the refusal while a service that the role depends on is away.
    static func unavailable(_ message: String, retryAfterSeconds: Int = 5) -> CheckoutFailure {
        var failure = CheckoutFailure(.unavailable, message)
        failure.headers = ["retry-after": String(retryAfterSeconds)]
        return failure
    }

    /// Makes the refusal of input that is not a request.
    init(_ fault: RequestFault) {
        let code: Code =
            switch fault.status {
            case .requestTimeout: .requestTimeout
            case .payloadTooLarge: .bodyTooLarge
            case .uriTooLong: .targetTooLong
            case .expectationFailed: .expectationFailed
            case .requestHeaderFieldsTooLarge: .fieldsTooLarge
            case .notImplemented: .notImplemented
            case .httpVersionNotSupported: .versionNotSupported
            case .serviceUnavailable: .unavailable
            default: .malformedRequest
            }
        self.init(code, fault.message)
        if let seconds = fault.retryAfterSeconds { self.headers = ["retry-after": String(seconds)] }
    }

    /// - Parameter request: the identifier of the request.
    func answer(request: String) -> Answer {
        var error: JSONObject = [
            "code": .string(self.code.rawValue), "message": .string(self.message), "type": .string(self.code.type),
            "request_id": .string(request),
        ]
        if let param = self.param { error["param"] = .string(param) }
        if !self.details.isEmpty {
            error["details"] = .array(
                self.details.map { ["path": .string($0.path), "message": .string($0.message)] })
        }
        let body: JSON = ["error": .object(error)]
        let headers = HTTPHeaders(self.headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        return .json(self.code.status, body.serialized, headers: headers)
    }
}
