import Model
import NIOHTTP1

/// What a request asks for, from its method and target alone.
///
/// Source: Wallet Orders §1.2
enum Route: Hashable {
    /// `GET /v1/orders/{type}/{id}`
    case package(OrderKey)
    /// `POST /v1/devices/{device}/registrations/{type}/{id}`
    case register(RegistrationKey)
    /// `DELETE` of the same path
    case unregister(RegistrationKey)
    /// `GET /v1/devices/{device}/registrations/{type}?ordersModifiedSince={tag}`
    case changes(DeviceIdentifier, OrderTypeIdentifier, tag: String)
    /// `POST /v1/log`
    case log

    /// Why there is no route.
    enum Failure: Error, Hashable {
        case notFound
        /// With the methods that are allowed on the path.
        case methodNotAllowed(allow: String)
        /// With what is wrong about the target.
        case badTarget(String)
    }

    /// - Parameters:
    ///   - basePath: what stands in front of `/v1`, without a slash at its end. It may also be missing, for a proxy
    ///     that takes it off; and one slash too many is passed over, which clients make when they join URLs.
    init(method: HTTPMethod, target: String, basePath: String) throws(Failure) {
        let target = Self.originForm(target)
        let path = target.prefix { $0 != "?" }
        let query = target[path.endIndex...].dropFirst()
        let segments = try Self.segments(path, basePath: basePath)
        switch segments.count {
        case 1 where segments[0] == "log":
            try Self.require(method, [.POST])
            self = .log
        case 3 where segments[0] == "orders":
            try Self.require(method, [.GET, .HEAD])
            self = .package(try Self.key(segments[1], segments[2]))
        case 4 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method, [.GET, .HEAD])
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let type = try Self.identifier { () throws(IdentifierError) in try OrderTypeIdentifier(segments[3]) }
            self = .changes(device, type, tag: Self.tag(query))
        case 5 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method, [.POST, .DELETE])
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let key = RegistrationKey(device: device, order: try Self.key(segments[3], segments[4]))
            self = method == .POST ? .register(key) : .unregister(key)
        default: throw .notFound
        }
    }

    /// The target without scheme and authority, which a server must take as well. Source: RFC 9112 §3.2.2
    private static func originForm(_ target: String) -> Substring {
        for scheme in ["http://", "https://"] where target.hasPrefix(scheme) {
            return target.dropFirst(scheme.count).drop { $0 != "/" && $0 != "?" }
        }
        return target[...]
    }

    private static func require(_ method: HTTPMethod, _ allowed: [HTTPMethod]) throws(Failure) {
        guard allowed.contains(method) else {
            throw .methodNotAllowed(allow: allowed.map(\.rawValue).joined(separator: ", "))
        }
    }

    private static func identifier<T>(_ make: () throws(IdentifierError) -> T) throws(Failure) -> T {
        do { return try make() } catch { throw .badTarget(error.description) }
    }

    private static func key(_ type: String, _ order: String) throws(Failure) -> OrderKey {
        try Self.identifier { () throws(IdentifierError) in
            OrderKey(orderType: try OrderTypeIdentifier(type), order: try OrderIdentifier(order))
        }
    }

    /// The decoded segments behind `/v1`.
    private static func segments(_ path: Substring, basePath: String) throws(Failure) -> [String] {
        var rest = path
        if !basePath.isEmpty, rest.hasPrefix(basePath), rest.dropFirst(basePath.count).hasPrefix("/") {
            rest = rest.dropFirst(basePath.count)
        }
        if rest.hasPrefix("//") { rest = rest.dropFirst() }
        guard rest.hasPrefix("/v1/") else { throw .notFound }
        var segments: [String] = []
        for segment in rest.dropFirst(4).split(separator: "/", omittingEmptySubsequences: false) {
            guard let decoded = percentDecoded(segment) else {
                throw .badTarget("the path has an invalid percent-encoding")
            }
            segments.append(decoded)
        }
        return segments
    }

    /// The value of `ordersModifiedSince`, empty if it is absent or cannot be decoded: then everything is reported.
    private static func tag(_ query: Substring) -> String {
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2, parts[0] == "ordersModifiedSince" { return percentDecoded(parts[1]) ?? "" }
        }
        return ""
    }
}

/// A text with its percent-encoding undone; nil if that is broken or does not give UTF-8. Source: RFC 3986 §2.1
func percentDecoded(_ text: Substring) -> String? {
    guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
    var bytes: [UInt8] = []
    var iterator = text.utf8.makeIterator()
    while let byte = iterator.next() {
        guard byte == UInt8(ascii: "%") else {
            bytes.append(byte)
            continue
        }
        guard let high = iterator.next().flatMap(hexadecimalValue), let low = iterator.next().flatMap(hexadecimalValue)
        else { return nil }
        bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
}

private func hexadecimalValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}
