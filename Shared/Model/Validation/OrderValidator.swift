/// Checks an order.json as strictly as `order.schema.json`, and rules that a schema cannot express but need no files.
///
/// Every violation is found in one pass, so that a publisher can fix them together.
/// Source: `order.schema.json`; Wallet Orders §3.20
public enum OrderValidator {
    /// The values that members for files may have.
    public enum Files: Hashable, Sendable {
        /// The name of a file in the package, as in a finished order.json (`order.schema.json`).
        case names
        /// A file name or an `https` URL, as in a document (`order-document.schema.json`). A fold checks with this
        /// value; the packager makes files of URLs or leaves the members out.
        case namesAndURLs
    }

    /// The most violations that are reported.
    public static let limit = 20

    /// Checks a complete order.json.
    ///
    /// - Parameters:
    ///   - allowUnknownMembers: accepts members that the schema does not know.
    ///   - nowEpochSeconds: refuses a `createdAt` more than 24 hours after it; nil skips this check.
    ///   - files: the values that members for files may have.
    ///   - limit: the most violations that are found.
    /// - Returns: the first violations; none for a valid order.
    public static func violations(
        in orderJSON: JSON, allowUnknownMembers: Bool, nowEpochSeconds: Int64?, files: Files = .namesAndURLs,
        limit: Int = Self.limit
    ) -> [Violation] {
        guard case .object(let order) = orderJSON else {
            return [Violation(path: "$", message: "must be an object, it is \(orderJSON.kind)")]
        }
        func walk(currency: String?) -> ValidationWalk {
            var walk = ValidationWalk(
                of: order, allowUnknownMembers: allowUnknownMembers, files: files, currency: currency, limit: limit)
            walk.object(order, OrderSchema.order)
            walk.checkRules(of: order, nowEpochSeconds: nowEpochSeconds)
            return walk
        }
        let total = order["payment"]?.object?["total"]?.object?["currency"]?.string
        let first = walk(currency: total)
        guard first.isMixedInCurrency, let common = Self.commonCurrency(of: orderJSON, total: total), common != total
        else { return first.violations }
        // The amounts in other currencies are reported, even if the total is one of them.
        return walk(currency: common).violations
    }

    /// Checks a member that a brand gives to orders that lack it.
    ///
    /// - Returns: violations whose paths begin with `$`, which is the member's value.
    public static func violations(
        in object: JSONObject, ofDefault member: Default, allowUnknownMembers: Bool
    ) -> [Violation] {
        var walk = ValidationWalk(
            of: object, allowUnknownMembers: allowUnknownMembers, files: .namesAndURLs, currency: nil)
        walk.object(object, member == .merchant ? OrderSchema.merchant : OrderSchema.returnInfo)
        return walk.violations
    }

    /// A member that orders get from their brand.
    public enum Default: String, Hashable, Sendable { case merchant, returnInfo }

    /// Returns the currency of most amounts; on a tie, that of the total. The parser bounds the depth.
    private static func commonCurrency(of order: JSON, total: String?) -> String? {
        var counts: [String: Int] = [:]
        func count(_ value: JSON) {
            switch value {
            case .object(let object):
                if object["amount"] != nil, let currency = object["currency"]?.string {
                    counts[currency, default: 0] += 2
                }
                for member in object.members { count(member.value) }
            case .array(let elements): for element in elements { count(element) }
            case .null, .bool, .number, .string: break
            }
        }
        count(order)
        if let total { counts[total, default: 0] += 1 }
        return counts.max { ($0.value, $1.key) < ($1.value, $0.key) }?.key
    }
}
