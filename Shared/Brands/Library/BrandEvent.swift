public import Model

/// A result of scanning the brands' directory, for the log and for the users of the brands.
public enum BrandEvent: Hashable, Sendable {
    /// A new brand.
    case added(OrderTypeIdentifier)
    /// A brand that has changed.
    case changed(OrderTypeIdentifier)
    /// A brand whose folder was removed, or belongs to another order type.
    case removed(OrderTypeIdentifier)
    /// A brand cannot be loaded; reported once for each reason.
    case failed(BrandFailure)
    /// The directory of all brands is missing or empty; all brands are kept.
    case directoryEmpty
}

/// A brand that cannot be loaded.
public struct BrandFailure: Hashable, Sendable {
    /// The folder's name.
    public let folder: String
    /// The order type of the last good version, or else the one that brand.json names; nil without either.
    public let orderType: OrderTypeIdentifier?
    /// The reason.
    public let error: BrandError
    /// True if an earlier version stays in use.
    public let isKept: Bool

    /// The brand's label in metrics.
    public var label: String { self.orderType?.rawValue ?? self.folder }
}
