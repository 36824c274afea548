/// The choice of whether Wallet itself notifies the customer of a change: `changeNotifications` of order.json.
///
/// Source: Wallet Orders §3.1
public enum ChangeNotifications: String, Hashable, Sendable, CaseIterable {
    /// Wallet shows a notification; what it does when the member is left out.
    case enabled
    /// Not where an associated app is installed, which then tells the customer.
    case disabledIfAppInstalled
}
