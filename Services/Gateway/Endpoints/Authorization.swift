import HTTPServer

/// Parses the `Authorization` header of orders.
///
/// Source: Wallet Orders §1.2a: scheme name in any case, exactly one space, the token is the rest
enum Authorization {
    static func token(_ header: String?) -> String? {
        guard let header else { return nil }
        let scheme: StaticString = "appleorder"
        let length = scheme.utf8CodeUnitCount
        let bytes = header.utf8.span
        guard bytes.count > length + 1, bytes[length] == .space, bytes[length + 1] != .space,
            bytes.extracting(0..<length).isEqualIgnoringCase(scheme)
        else { return nil }
        return String(header.utf8.dropFirst(length + 1))
    }
}
