import Model

/// The order details in a request to confirm a payment: `apple_pay_order_details`.
struct DetailsRequest: Hashable, Sendable {
    static let name = "apple_pay_order_details"
    private static let names = [
        "order_type_identifier", "order_identifier", "web_service_url", "authentication_token",
    ]

    let key: OrderKey
    /// A web service other than ours that the caller names; nil for ours.
    let foreignWebService: String?
    /// The token that the caller names.
    let token: AuthenticationToken?

    /// - Parameters:
    ///   - object: the member's value.
    ///   - webServiceURL: ours, without a slash at its end.
    init(_ object: JSONObject, _ caller: Caller, webServiceURL: String) throws(CheckoutFailure) {
        let members = DialectMembers(object, path: Self.name)
        try members.refuseMixture(of: Self.names)
        let type = try caller.orderType(
            try members.requiredText(Self.names[0]), param: "\(Self.name)[\(Self.names[0])]")
        let identifier = try members.requiredText(Self.names[1])
        do {
            self.key = OrderKey(orderType: type, order: try OrderIdentifier(identifier))
        } catch {
            throw Self.refused("must be 1 to 255 of A-Z a-z 0-9 . _ ~ -", Self.names[1])
        }
        let url = try members.text(Self.names[2])
        switch url {
        case nil: self.foreignWebService = nil
        case let url? where Self.isSame(url, webServiceURL): self.foreignWebService = nil
        case let url?:
            guard let known = caller.merchant.foreignWebServices.first(where: { Self.isSame($0, url) }) else {
                throw Self.refused(
                    "must be the URL of this web service or left out, or one of the merchant's foreignWebServices",
                    Self.names[2])
            }
            self.foreignWebService = known
        }
        guard let text = try members.text(Self.names[3]) else {
            guard self.foreignWebService == nil else {
                throw Self.refused("is required: the token of another web service cannot be known here", Self.names[3])
            }
            self.token = nil
            return
        }
        do {
            self.token = try AuthenticationToken(text)
        } catch {
            throw Self.refused("must have 16 to 255 visible ASCII characters", Self.names[3])
        }
    }

    /// True if two URLs are the same, apart from one slash at the end.
    private static func isSame(_ left: String, _ right: String) -> Bool {
        func bare(_ url: String) -> Substring { url.hasSuffix("/") ? url.dropLast() : url[...] }
        return bare(left) == bare(right)
    }

    static func refused(_ message: String, _ name: String) -> CheckoutFailure {
        CheckoutFailure(.orderDetailsRefused, message, param: "\(Self.name)[\(name)]")
    }
}
