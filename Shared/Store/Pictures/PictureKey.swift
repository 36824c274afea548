public import Model

/// A picture that orders of one type name by its URL.
///
/// The type is a part of it because the brand determines which hosts may be asked, also by redirects.
public struct PictureKey: Hashable, Sendable, CustomStringConvertible {
    public let orderType: OrderTypeIdentifier
    /// As in the order, without the parts that, by the brand's rules, do not distinguish pictures.
    public let url: String

    public init(orderType: OrderTypeIdentifier, url: String) {
        self.orderType = orderType
        self.url = url
    }

    /// `<type> <url>`, as in Redis.
    ///
    /// Not for logs: a URL may carry a key.
    public var description: String { "\(self.orderType) \(self.url)" }

    /// Parses the format of `description`; nil for anything else.
    init?(_ text: String) {
        guard let space = text.firstIndex(of: " "), let type = try? OrderTypeIdentifier(String(text[..<space])) else {
            return nil
        }
        self.init(orderType: type, url: String(text[text.index(after: space)...]))
    }
}
