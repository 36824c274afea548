/// Checks an order.json as strictly as `order.schema.json`, and what a schema cannot say but needs no files.
///
/// Every violation is found in one pass, so that a publisher mends them together.
/// Source: `order.schema.json`; Wallet Orders §3.20
public enum OrderValidator {
    /// What image members may say.
    public enum Images: Hashable, Sendable {
        /// The name of a file in the package: what the finished order.json may say (`order.schema.json`).
        case files
        /// That, or an `https` URL: what a document may say (`order-document.schema.json`). A fold checks this way; the
        /// packager makes files of URLs or leaves the members out.
        case filesAndURLs
    }

    /// Violations that are told at most.
    public static let limit = 20

    /// Checks a complete order.json.
    ///
    /// - Parameters:
    ///   - allowUnknownMembers: lets members through that the schema does not know.
    ///   - nowEpochSeconds: refuses a `createdAt` more than 24 hours after it; nil leaves that out.
    ///   - images: what image members may say.
    /// - Returns: the first 20 violations; none for a valid order.
    public static func violations(
        in orderJSON: JSON, allowUnknownMembers: Bool, nowEpochSeconds: Int64?, images: Images = .filesAndURLs
    ) -> [Violation] {
        guard case .object(let order) = orderJSON else {
            return [Violation(path: "$", message: "must be an object, it is \(orderJSON.kind)")]
        }
        var walk = ValidationWalk(
            of: order, allowUnknownMembers: allowUnknownMembers, images: images,
            currency: order["payment"]?.object?["total"]?.object?["currency"]?.string)
        walk.object(order, OrderSchema.order)
        walk.checkRules(of: order, nowEpochSeconds: nowEpochSeconds)
        return walk.violations
    }
}
