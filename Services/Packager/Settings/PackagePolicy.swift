import Model
import Store

/// The versions that are packaged with their changes; the others are packaged when somebody asks for them.
///
/// Most customers never add their orders to Wallet, and an order has about ten versions. The first one is packaged at
/// once, since Wallet fetches it right after the payment. A wrong guess costs a fetch some milliseconds and nothing
/// else: what is served is always the newest version.
enum PackagePolicy: String, CaseIterable, Sendable {
    /// Each version.
    case always
    /// The first version, and those of orders that a device is registered for, or that were asked for lately.
    case followed

    /// The time for which an order counts as followed after a package was asked for, in seconds.
    private static let requestSeconds: Int64 = 24 * 3600

    /// Returns true if the next version of an order is not packaged yet.
    ///
    /// - Parameters:
    ///   - stored: the order before it; nil for its first version.
    ///   - isSilent: true if no device is notified of the version.
    func leavesPackage(after stored: OrderStore.StoredOrder?, isSilent: Bool, nowEpochSeconds: Int64) -> Bool {
        guard self == .followed else { return false }
        guard let stored, !stored.state.isRemoved else { return isSilent }
        return !stored.hasDevices && nowEpochSeconds - stored.requestedEpochSeconds >= Self.requestSeconds
    }
}
