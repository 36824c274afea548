import FoundationEssentials

/// The times of an asset's life. They ensure that no order ever names an asset that was swept: `memory` + `write` + the
/// difference of any two clocks must stay below `grace`.
public struct AssetTiming: Hashable, Sendable {
    /// The time for which a packager relies on an asset that it has seen.
    public var memory: Duration = .seconds(3600)
    /// From the beginning of packaging to the last moment at which Redis accepts the order.
    public var write: Duration = .seconds(6 * 3600)
    /// From the moment at which an asset was found unused to the earliest start of the scan that decides on it.
    public var grace: Duration = .seconds(24 * 3600)

    public init() {}
}

/// The time when packaging of some orders began. It is before any of their assets is looked up.
public struct PackagingStart: Hashable, Sendable {
    let epochMilliseconds: Int64

    /// The present time of this machine's clock.
    public static var now: PackagingStart {
        PackagingStart(epochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
