import Model

/// The operation that a request asks for, from its method and target alone.
///
/// Source: Wallet Orders §1.2, §6
enum Route: Hashable {
    /// `GET /v1/orders/{type}/{id}`
    case package(OrderKey)
    /// `GET /v1/orders/{type}/{id}/package?expires={UNIX seconds}&signature={signature}`; empty for missing parameters.
    case link(OrderKey, expires: String, signature: String)
    /// `POST /v1/devices/{device}/registrations/{type}/{id}`
    case register(RegistrationKey)
    /// `DELETE` of the same path
    case unregister(RegistrationKey)
    /// `GET /v1/devices/{device}/registrations/{type}?ordersModifiedSince={tag}`
    case changes(DeviceIdentifier, OrderTypeIdentifier, tag: String)
    /// `POST /v1/log`
    case log
    /// `GET /v1/packages/{type}/{id}`, of the compatible dialect
    case order(OrderKey)
    /// `POST /v1/push`, of the compatible dialect
    case push

    /// The reason why there is no route.
    enum Failure: Error, Hashable {
        case notFound
        /// With the methods that are allowed on the path.
        case methodNotAllowed(allow: String)
        /// With the error in the target.
        case badTarget(String)
    }

    /// - Parameters:
    ///   - target: of printable ASCII, in origin or absolute form.
    ///   - basePath: the part before `/v1`, without a slash at its end. It may also be missing, for a proxy that strips
    ///     it; and one extra slash is ignored, which clients produce when they join URLs.
    ///   - isCompatible: whether the routes of the compatible dialect exist.
    init(
        method: Request.Method, target: String, basePath: String, isCompatible: Bool = false
    ) throws(Failure) {
        let target = RequestTarget(target)
        guard let segments = try target.segments(behind: basePath) else { throw .notFound }
        switch segments.count {
        case 1 where segments[0] == "log":
            try Self.require(method == .post, "POST")
            self = .log
        case 3 where segments[0] == "orders":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .package(try Self.key(segments[1], segments[2]))
        case 4 where segments[0] == "orders" && segments[3] == "package":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            let key = try Self.key(segments[1], segments[2])
            self = .link(
                key, expires: target.parameter("expires") ?? "", signature: target.parameter("signature") ?? "")
        case 4 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let type = try Self.identifier { () throws(IdentifierError) in try OrderTypeIdentifier(segments[3]) }
            // A tag that cannot be decoded is not one of ours: everything is then reported.
            self = .changes(device, type, tag: target.parameter("ordersModifiedSince") ?? "")
        case 5 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method == .post || method == .delete, "POST, DELETE")
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let key = RegistrationKey(device: device, order: try Self.key(segments[3], segments[4]))
            self = method == .post ? .register(key) : .unregister(key)
        case 1 where isCompatible && segments[0] == "push":
            try Self.require(method == .post, "POST")
            self = .push
        case 3 where isCompatible && segments[0] == "packages":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .order(try Self.key(segments[1], segments[2]))
        default: throw .notFound
        }
    }

    private static func require(_ isAllowed: Bool, _ allow: String) throws(Failure) {
        guard isAllowed else { throw .methodNotAllowed(allow: allow) }
    }

    private static func identifier<T>(_ make: () throws(IdentifierError) -> T) throws(Failure) -> T {
        do { return try make() } catch { throw .badTarget(error.description) }
    }

    private static func key(_ type: String, _ order: String) throws(Failure) -> OrderKey {
        try Self.identifier { () throws(IdentifierError) in
            OrderKey(orderType: try OrderTypeIdentifier(type), order: try OrderIdentifier(order))
        }
    }
}
