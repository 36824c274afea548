import Browser
import HTTPServer
import Model
import NIOHTTP1

/// The route of a request to the checkout role, from its method and target alone.
enum CheckoutRoute: Hashable, Sendable {
    // MARK: For servers, with a key

    /// `POST /v1/checkout/order-details`
    case orderDetails
    /// `POST /v1/checkout/grants`
    case grants
    /// `POST /v1/checkout/links`
    case links
    /// `PUT`, `PATCH`, `DELETE /v1/checkout/orders/{type}/{id}`, and `POST …/merge` and `…/announce`
    case order(OrderKey, ChangeType)
    /// `POST /v1/checkout/orders/{type}/{id}/fulfillments/{fulfillment}`, and `…/returns/{return}` alike
    case part(OrderKey, ChangeType, identifier: String)

    /// `POST /v1/payment_intents/{id}/confirm`
    case confirm(String)
    /// `POST /v1/apple_pay/order_tracking/notify`
    case notify

    // MARK: For systems that sign

    /// `POST /v1/checkout/sources/{name}`
    case source(String)

    // MARK: For pages of merchants

    /// `POST /applepay/order-details`
    case grantedDetails

    /// `POST /applepay/validate`
    case validate
    /// `GET /applepay/metadata`
    case metadata
    /// `GET /applepay/basket/{id}`
    case basket(String)
    /// `POST /applepay/basket/{id}/validatepostalcode`
    case postalCode(String)
    /// `POST /applepay/payment`
    case payment

    // MARK: For any client

    /// `GET /.well-known/apple-developer-merchantid-domain-association`, with or without `.txt`
    case association
    /// `GET /`
    case root
    /// `GET /applepay/waybill.mjs` and the like
    case file(BrowserFile)

    /// `OPTIONS` of a path for pages, with the methods that it accepts.
    case preflight(methods: String)

    /// The route's label in metrics.
    var label: CheckoutMetrics.Route {
        switch self {
        case .orderDetails: .orderDetails
        case .grants: .grants
        case .links: .links
        case .order, .part: .orders
        case .source: .sources
        case .grantedDetails: .grantedDetails
        case .validate: .validate
        case .confirm: .confirm
        case .notify: .notify
        case .metadata: .metadata
        case .basket: .basket
        case .postalCode: .postalCode
        case .payment: .payment
        case .association, .root: .association
        case .file: .files
        case .preflight: .preflight
        }
    }

    /// - Throws: `CheckoutFailure` if the path does not exist, or not with this method.
    init(method: Request.Method, target: String) throws(CheckoutFailure) {
        let segments: [String]
        do {
            segments = try RequestTarget(target).segments()
        } catch {
            throw CheckoutFailure(.malformedRequest, "the path has an invalid percent-encoding")
        }
        switch segments.first {
        case "v1": self = try Self.server(method, segments.dropFirst())
        case "applepay": self = try Self.page(method, segments.dropFirst())
        case DomainAssociation.path where segments.count == 2 && DomainAssociation.names.contains(segments[1]):
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .association
        case "" where segments.count == 1:
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .root
        default: throw Self.nothing
        }
    }

    static let nothing = CheckoutFailure(.notFound, "there is no such path")

    private static func server(
        _ method: Request.Method, _ path: ArraySlice<String>
    ) throws(CheckoutFailure) -> CheckoutRoute {
        let path = Array(path)
        switch path.count {
        case 2 where path[0] == "checkout":
            let routes: [String: CheckoutRoute] = [
                "order-details": .orderDetails, "grants": .grants, "links": .links,
            ]
            guard let route = routes[path[1]] else { throw Self.nothing }
            try Self.require(method == .post, "POST")
            return route
        case 3 where path[0] == "checkout" && path[1] == "sources":
            guard Self.isSegment(path[2]) else { throw Self.nothing }
            try Self.require(method == .post, "POST")
            return .source(path[2])
        case 4 where path[0] == "checkout" && path[1] == "orders":
            let types: [Request.Method: ChangeType] = [
                .put: .orderReplaced, .patch: .orderPatched, .delete: .orderRemoved,
            ]
            guard let type = types[method] else { throw Self.notAllowed("PUT, PATCH, DELETE") }
            return .order(try Self.key(path[2], path[3]), type)
        case 5 where path[0] == "checkout" && path[1] == "orders":
            let types: [String: ChangeType] = ["merge": .orderMerged, "announce": .orderAnnounced]
            guard let type = types[path[4]] else { throw Self.nothing }
            try Self.require(method == .post, "POST")
            return .order(try Self.key(path[2], path[3]), type)
        case 6 where path[0] == "checkout" && path[1] == "orders":
            let types: [String: ChangeType] = ["fulfillments": .fulfillmentUpdated, "returns": .returnUpdated]
            guard let type = types[path[4]] else { throw Self.nothing }
            try Self.require(method == .post, "POST")
            guard !path[5].isEmpty, path[5].utf8.count <= 255 else { throw Self.nothing }
            return .part(try Self.key(path[2], path[3]), type, identifier: path[5])
        case 3 where path[0] == "payment_intents" && path[2] == "confirm":
            guard Self.isPayment(path[1]) else { throw Self.nothing }
            try Self.require(method == .post, "POST")
            return .confirm(path[1])
        case 3 where path == ["apple_pay", "order_tracking", "notify"]:
            try Self.require(method == .post, "POST")
            return .notify
        default: throw Self.nothing
        }
    }

    private static func isPayment(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
    }

    /// True if a text can name a basket or a source.
    static func isSegment(_ text: String) -> Bool {
        // Two dots must not lead out of the path.
        (1...128).contains(text.utf8.count) && text != "." && text != ".."
            && text.utf8.allSatisfy { $0.isLetter || $0.isDigit || "._~-".utf8.contains($0) }
    }

    private static func page(
        _ method: Request.Method, _ path: ArraySlice<String>
    ) throws(CheckoutFailure) -> CheckoutRoute {
        switch Array(path) {
        case ["order-details"]: try Self.page(.grantedDetails, method, reads: false)
        case ["validate"]: try Self.page(.validate, method, reads: false)
        case ["metadata"]: try Self.page(.metadata, method, reads: true)
        case ["payment"]: try Self.page(.payment, method, reads: false)
        case ["basket", path.last ?? ""] where Self.isSegment(path.last ?? ""):
            try Self.page(.basket(path.last ?? ""), method, reads: true)
        case ["basket", path.dropLast().last ?? "", "validatepostalcode"]
        where Self.isSegment(path.dropLast().last ?? ""):
            try Self.page(.postalCode(path.dropLast().last ?? ""), method, reads: false)
        default: try Self.file(method, Array(path))
        }
    }

    private static func page(
        _ route: CheckoutRoute, _ method: Request.Method, reads: Bool
    ) throws(CheckoutFailure) -> CheckoutRoute {
        let methods = reads ? "GET, HEAD, OPTIONS" : "POST, OPTIONS"
        if method == .options { return .preflight(methods: methods) }
        try Self.require(reads ? method == .get || method == .head : method == .post, methods)
        return route
    }

    /// Finds a file that pages load, whatever their origin.
    private static func file(_ method: Request.Method, _ path: [String]) throws(CheckoutFailure) -> CheckoutRoute {
        let files = BrowserFile.all + [BrowserFile.polyfill]
        guard path.count == 1, let file = files.first(where: { $0.path == "/applepay/\(path[0])" }) else {
            throw Self.nothing
        }
        try Self.require(method == .get || method == .head, "GET, HEAD")
        return .file(file)
    }

    private static func require(_ isAllowed: Bool, _ allow: String) throws(CheckoutFailure) {
        guard isAllowed else { throw Self.notAllowed(allow) }
    }

    private static func notAllowed(_ allow: String) -> CheckoutFailure {
        var failure = CheckoutFailure(.methodNotAllowed, "allowed methods: \(allow)")
        failure.headers = ["allow": allow]
        return failure
    }

    private static func key(_ type: String, _ order: String) throws(CheckoutFailure) -> OrderKey {
        do {
            return OrderKey(orderType: try OrderTypeIdentifier(type), order: try OrderIdentifier(order))
        } catch {
            throw Self.nothing
        }
    }

    /// True for a route that needs a key.
    var isForServers: Bool {
        switch self {
        case .orderDetails, .grants, .links, .order, .part, .confirm, .notify: true
        case .source, .grantedDetails, .validate, .metadata, .basket, .postalCode, .payment, .association, .root,
            .file, .preflight:
            false
        }
    }

    /// True for a route of pages, whose origin must be a merchant's.
    var isForPages: Bool {
        switch self {
        case .grantedDetails, .validate, .basket, .postalCode, .payment, .preflight: true
        case .orderDetails, .grants, .links, .order, .part, .confirm, .notify, .source, .metadata, .association, .root,
            .file:
            false
        }
    }

    /// The most bytes that a body may have: an order document has its own limit, as has each webhook, and everything
    /// else is small.
    var bodyLimit: Int {
        switch self {
        case .orderDetails, .links, .order, .part: return OrderChange.valueLimit
        case .validate, .confirm, .payment: return 64 << 10
        case .notify: return OrderChange.valueLimit
        case .metadata, .basket, .postalCode: return 16 << 10
        case .grants, .source, .grantedDetails, .association, .root, .file, .preflight: return 16 << 10
        }
    }
}
