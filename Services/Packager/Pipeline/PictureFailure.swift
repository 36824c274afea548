import Fetch

/// The reasons for a failure to get a picture, as metrics and logs name them.
enum PictureFailure: String, CaseIterable, Sendable {
    case url = "url"
    case hostNotAllowed = "host_not_allowed"
    case addressNotAllowed = "address_not_allowed"
    case redirects = "redirects"
    case notFound = "not_found"
    case refused = "refused"
    case serverError = "server_error"
    case tooLarge = "too_large"
    case notAPicture = "not_a_picture"
    case timeout = "timeout"
    case connection = "connection"
    case tls = "tls"

    /// True if a retry may succeed soon.
    var isTemporary: Bool {
        switch self {
        case .serverError, .timeout, .connection, .tls: true
        case .url, .hostNotAllowed, .addressNotAllowed, .redirects, .notFound, .refused, .tooLarge, .notAPicture: false
        }
    }

    /// - Returns: nil if the picture is not the cause: the fetcher was busy, or is stopping.
    init?(_ error: FetchError) {
        switch error.code {
        case .url: self = .url
        case .hostNotAllowed: self = .hostNotAllowed
        case .addressNotAllowed: self = .addressNotAllowed
        case .tooManyRedirects: self = .redirects
        case .status(404), .status(410): self = .notFound
        // Too many requests, or one that took too long: temporary. Source: RFC 9110 §15.5, RFC 6585 §4
        case .status(408), .status(425), .status(429), .status(500...): self = .serverError
        case .status: self = .refused
        case .tooLarge: self = .tooLarge
        case .timeout: self = .timeout
        case .connection, .malformed: self = .connection
        case .tls: self = .tls
        case .busy, .cancelled, .closed, .library: return nil
        }
    }
}
