public import Model

/// A picture that orders of one type name by its URL.
///
/// The type belongs to it because the brand says which hosts may be asked, also by way of redirects.
public struct PictureKey: Hashable, Sendable, CustomStringConvertible {
    public let orderType: OrderTypeIdentifier
    /// As the order says it, but for what the brand says does not tell pictures apart.
    public let url: String

    public init(orderType: OrderTypeIdentifier, url: String) {
        self.orderType = orderType
        self.url = url
    }

    /// `<type> <url>`, as in Redis.
    ///
    /// Not for logs: a URL may carry a key.
    public var description: String { "\(self.orderType) \(self.url)" }

    /// Reads what `description` gives; nil for anything else.
    init?(_ text: String) {
        guard let space = text.firstIndex(of: " "), let type = try? OrderTypeIdentifier(String(text[..<space])) else {
            return nil
        }
        self.init(orderType: type, url: String(text[text.index(after: space)...]))
    }
}
