import HTTPServer

/// A caller's own name for a request that it may send again.
enum IdempotencyKey {
    /// - Returns: nil if the request has none.
    static func read(_ fields: Request.Fields) throws(CheckoutFailure) -> String? {
        guard fields.others.contains(where: { $0.name == .idempotencyKey }) else { return nil }
        guard let key = fields[.idempotencyKey], (1...255).contains(key.utf8.count),
            key.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw CheckoutFailure(
                .invalidParameter, "must be 1 to 255 visible ASCII characters, once", param: "Idempotency-Key")
        }
        return key
    }
}
