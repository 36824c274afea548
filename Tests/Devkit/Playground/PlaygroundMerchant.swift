import Model
import TestKit

/// The merchant of the playground.
enum PlaygroundMerchant {
    static let identifier = "merchant.com.example.waybill"
    static let displayName = "Waybill Playground"

    /// Returns an error in the format of the checkout role.
    static func failure(_ status: Int, _ code: String, _ message: String) -> FakeServer.Response {
        let body: JSON = ["error": ["code": .string(code), "message": .string(message)]]
        return .json(status, body.text)
    }
}
