import Model
import Tokens

/// The four members that hand an order over to Wallet at the end of a payment, as Apple Pay JS, Payment Request and
/// PassKit take them.
///
/// Source: Apple Pay on the Web, `ApplePayPaymentOrderDetails`; PassKit, `PKPaymentOrderDetails`
struct OrderDetails: Hashable, Sendable {
    let key: OrderKey
    let webServiceURL: String
    let token: AuthenticationToken

    /// In camel case, for `completePayment`.
    var json: JSON {
        [
            "orderTypeIdentifier": .string(self.key.orderType.rawValue),
            "orderIdentifier": .string(self.key.order.rawValue), "webServiceURL": .string(self.webServiceURL),
            "authenticationToken": .string(self.token.rawValue),
        ]
    }

    /// In snake case, as payment providers write them.
    var snakeJSON: JSON {
        [
            "order_type_identifier": .string(self.key.orderType.rawValue),
            "order_identifier": .string(self.key.order.rawValue), "web_service_url": .string(self.webServiceURL),
            "authentication_token": .string(self.token.rawValue),
        ]
    }
}

/// Makes order details from the token secrets alone, without asking a service or storing anything.
struct OrderDetailsMint: Sendable {
    let tokens: TokenAuthority
    /// Without a slash at its end.
    let webServiceURL: String
    /// Called with the order type of details that a caller gets.
    var onHandedOut: (@Sendable (OrderTypeIdentifier) -> Void)?

    /// Returns details that a caller gets.
    func handingOut(_ details: OrderDetails) -> OrderDetails {
        self.onHandedOut?(details.key.orderType)
        return details
    }

    /// - Parameter token: the order's own token; nil for the derived one.
    func details(of key: OrderKey, token: AuthenticationToken? = nil) -> OrderDetails {
        OrderDetails(key: key, webServiceURL: self.webServiceURL, token: token ?? self.tokens.token(for: key))
    }
}
