public import Model

/// What a look at the brands' directory led to, for the log and for those who follow the brands.
public enum BrandEvent: Hashable, Sendable {
    /// A brand that was not there before.
    case added(OrderTypeIdentifier)
    /// A brand that is another one now.
    case changed(OrderTypeIdentifier)
    /// A brand whose folder is gone, or is another order type's.
    case removed(OrderTypeIdentifier)
    /// A brand cannot be loaded; told once for each reason.
    case failed(BrandFailure)
    /// The directory of all brands is gone or empty; all are kept.
    case directoryEmpty
}

/// A brand that cannot be loaded.
public struct BrandFailure: Hashable, Sendable {
    /// The folder's name.
    public let folder: String
    /// The order type of the last good version, or else the one that brand.json names; nil if nothing names one.
    public let orderType: OrderTypeIdentifier?
    /// Why.
    public let error: BrandError
    /// Whether an earlier version goes on working.
    public let isKept: Bool

    /// What it is called in metrics.
    public var label: String { self.orderType?.rawValue ?? self.folder }
}
