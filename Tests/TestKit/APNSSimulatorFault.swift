/// Something that goes wrong on purpose.
public struct APNSSimulatorFault: Hashable, Sendable {
    /// What happens.
    public enum Effect: Hashable, Sendable {
        /// Another answer, at once or late.
        case answer(APNSSimulatorAnswer, delayMilliseconds: Int)
        /// The usual answer, late.
        case delay(milliseconds: Int)
        /// GOAWAY with a reason in its debug data. `processed`: the request that caused it is answered and is the last
        /// one; otherwise it is not processed, and may be sent again elsewhere. Source: RFC 9113 §6.8
        case goAway(reason: String, processed: Bool)
        /// The TCP connection ends with no word, not even TLS's.
        case cut
        /// No answer, the connection stays. At once (`isImmediate`): nothing is read any more, PINGs go unanswered too.
        case silence
        /// Another SETTINGS_MAX_CONCURRENT_STREAMS, at once and for new connections, as long as the fault stands.
        case maxConcurrentStreams(Int)
    }

    /// The device token, in lower case; nil: all.
    public var token: String?
    /// The number of a connection; nil: all.
    public var connection: Int?
    /// How many requests are hit; nil: until cleared.
    public var count: Int?
    /// Happens once, now, on the open connections, instead of waiting for requests. Of `goAway`, `cut` and `silence`.
    public var isImmediate: Bool
    public var effect: Effect

    public init(
        _ effect: Effect, token: String? = nil, connection: Int? = nil, count: Int? = nil, isImmediate: Bool = false
    ) {
        self.effect = effect
        self.token = token?.lowercased()
        self.connection = connection
        self.count = count
        self.isImmediate = isImmediate
    }
}
