/// A GOAWAY in any form.
///
/// Source: RFC 9113 §6.8; Wallet Orders §4.5: the debug data is JSON with `reason`
public struct APNSSimulatorGoAway: Hashable, Sendable {
    /// The stream that is named as the last one.
    public enum Last: Hashable, Sendable {
        /// The request that caused it, which is answered; for an immediate GOAWAY, the highest stream that was opened.
        case processed
        /// The last request decided before it; the request that caused it may be sent again on another connection.
        case unprocessed
        /// The stream this many below the last one decided. That is false, since the streams above it were delivered
        /// all the same.
        case behind(Int)
    }

    /// The `reason` in the debug data; nil for no debug data.
    public var reason: String?
    /// The literal debug data, in place of `reason`.
    public var debug: String?
    /// Source: RFC 9113 §7: 0 is NO_ERROR
    public var errorCode: Int
    public var last: Last
    /// A pair: the first GOAWAY names 2^31-1, and after this pause the second names the real last stream; requests in
    /// between are processed. Nil for a single GOAWAY.
    public var pairPauseMilliseconds: Int?
    /// True if the connection closes when the streams up to the last one have ended.
    public var closes: Bool

    public init(
        reason: String? = nil, debug: String? = nil, errorCode: Int = 0, last: Last = .processed,
        pairPauseMilliseconds: Int? = nil, closes: Bool = true
    ) {
        self.reason = reason
        self.debug = debug
        self.errorCode = errorCode
        self.last = last
        self.pairPauseMilliseconds = pairPauseMilliseconds
        self.closes = closes
    }

    /// The content of the debug data.
    var debugData: String { self.debug ?? self.reason.map { APNSSimulatorAnswer(200, $0).body } ?? "" }
}
