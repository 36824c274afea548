/// The choice of whether Wallet itself notifies the customer of a change: `changeNotifications` of order.json.
///
/// Source: Wallet Orders §3.1
public enum ChangeNotifications: String, Hashable, Sendable, CaseIterable {
    /// Wallet shows a notification, as it does if the member is left out.
    case enabled
    /// Wallet shows none if an associated app is installed, which then notifies the customer.
    case disabledIfAppInstalled
}
