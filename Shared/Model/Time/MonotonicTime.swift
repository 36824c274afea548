/// A moment of this process: the time since the first one that was asked for, on the clock that nothing sets.
///
/// `ContinuousClock.Instant` is the same, but its layout is known only at run time, and with it that of each value that
/// contains one: a value type with ten of them is copied by calls through its metadata.
public struct MonotonicTime: Hashable, Comparable, Sendable {
    private let sinceOrigin: Duration

    private static let origin = ContinuousClock.now

    public static var now: Self { Self(sinceOrigin: Self.origin.duration(to: .now)) }

    public static func < (left: Self, right: Self) -> Bool { left.sinceOrigin < right.sinceOrigin }

    public static func + (left: Self, right: Duration) -> Self { Self(sinceOrigin: left.sinceOrigin + right) }

    public static func - (left: Self, right: Duration) -> Self { Self(sinceOrigin: left.sinceOrigin - right) }

    public static func - (left: Self, right: Self) -> Duration { left.sinceOrigin - right.sinceOrigin }

    public static func += (left: inout Self, right: Duration) { left = left + right }
}
