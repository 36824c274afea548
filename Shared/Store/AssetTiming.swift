import Foundation

/// The times of an asset's life. They make sure that no order ever names an asset that was swept:
/// `memory` + `write` + the difference of any two clocks must stay below `grace`.
public struct AssetTiming: Hashable, Sendable {
    /// The time that a packager relies on an asset that it has seen.
    public var memory: Duration = .seconds(3600)
    /// From the beginning of packaging to the last moment at which Redis takes the order.
    public var write: Duration = .seconds(6 * 3600)
    /// From the moment at which an asset was found to be unused to the earliest begin of the scan that decides on it.
    public var grace: Duration = .seconds(24 * 3600)

    public init() {}
}

/// The moment at which packaging of some orders began. It comes before any of their assets is looked for.
public struct PackagingStart: Hashable, Sendable {
    let epochMilliseconds: Int64

    /// Of this machine's clock.
    public static var now: PackagingStart {
        PackagingStart(epochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
