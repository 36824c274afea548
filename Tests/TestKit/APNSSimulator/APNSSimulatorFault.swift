/// An intended failure.
public struct APNSSimulatorFault: Hashable, Sendable {
    /// The effect of a fault.
    public enum Effect: Hashable, Sendable {
        /// Another answer, immediately or late.
        case answer(APNSSimulatorAnswer, delayMilliseconds: Int)
        /// The usual answer, late.
        case delay(milliseconds: Int)
        /// The usual answer, with a random delay in milliseconds for each request.
        case randomDelay(ClosedRange<Int>)
        /// GOAWAY with a reason in its debug data. `processed`: the request that caused it is answered and is the last
        /// one; otherwise it is not processed and may be sent again on another connection. Source: RFC 9113 §6.8
        case goAway(reason: String, processed: Bool)
        /// GOAWAY in any form.
        case farewell(APNSSimulatorGoAway)
        /// The TCP connection ends with FIN and nothing else, not even the close_notify of TLS.
        case cut
        /// The TCP connection ends with RST.
        case reset
        /// FIN, but input is still read, so the client's writes succeed and are never answered.
        case halfClose
        /// No answer to the request; the connection stays open. Immediate (`isImmediate`): the same as
        /// `condition(.blackHole)`.
        case silence
        /// RST_STREAM with any error code instead of an answer. Source: RFC 9113 §7
        case resetStream(errorCode: Int)
        /// Another SETTINGS_MAX_CONCURRENT_STREAMS, immediately and for new connections, while the fault is set. Open
        /// streams remain; `condition(.refusingStreamLimit)` ends them.
        case maxConcurrentStreams(Int)
        /// A condition of a connection, while the fault is set.
        case condition(APNSSimulatorCondition)
        /// A new connection fails before its first request.
        case connect(APNSSimulatorConnectFault)
        /// The port is closed while the fault is set: new connections are refused, open ones remain.
        case closeListener
        /// The simulator's clock is shifted permanently, so that provider tokens expire.
        case clock(shiftMilliseconds: Int64)
    }

    /// One open connection, chosen by age, load or chance.
    public enum Choice: String, Hashable, Sendable, CaseIterable { case oldest, newest, busiest, random }

    /// The device token, in lower case; nil for all.
    public var token: String?
    /// The number of a connection; nil for all.
    public var connection: Int?
    /// The choice of a connection, made when the fault is added (if none is open, the fault is for all). Takes
    /// precedence over `connection`.
    public var choice: Choice?
    /// The number of requests affected (of `connect`: connections); nil for any number.
    public var count: Int?
    /// The probability that the fault affects each of them; nil for certainty.
    public var probability: Double?
    /// The lifetime of the fault; nil until it is used up or cleared.
    public var lifetimeMilliseconds: Int?
    /// True if the fault takes effect immediately, on the open connections, instead of waiting for requests. Applies to
    /// effects that end a connection, to `silence` and to `condition`; the last two then spare new connections.
    public var isImmediate: Bool
    public var effect: Effect

    public init(
        _ effect: Effect, token: String? = nil, connection: Int? = nil, choice: Choice? = nil, count: Int? = nil,
        probability: Double? = nil, lifetimeMilliseconds: Int? = nil, isImmediate: Bool = false
    ) {
        self.effect = effect
        self.token = token?.lowercased()
        self.connection = connection
        self.choice = choice
        self.count = count
        self.probability = probability
        self.lifetimeMilliseconds = lifetimeMilliseconds
        self.isImmediate = isImmediate
    }
}

extension APNSSimulatorFault {
    /// The event on which a fault takes effect.
    enum Stage: Hashable { case request, connections, connect, listener, now }

    /// A condition with a token, a count or a probability waits for a request and then applies to its connection.
    var stage: Stage {
        switch self.effect {
        case .answer, .delay, .randomDelay, .resetStream: .request
        case .goAway, .farewell, .cut, .reset, .halfClose: self.isImmediate ? .now : .request
        case .silence: self.isImmediate ? .connections : .request
        case .condition: self.waitsForRequest ? .request : .connections
        case .maxConcurrentStreams: .connections
        case .connect: .connect
        case .closeListener: .listener
        case .clock: .now
        }
    }

    /// The condition that lasts while the fault is set.
    var condition: APNSSimulatorCondition? {
        switch self.effect {
        case .condition(let condition): condition
        case .maxConcurrentStreams(let limit): .streamLimit(limit)
        case .silence: .blackHole
        default: nil
        }
    }

    private var waitsForRequest: Bool { self.token != nil || self.count != nil || self.probability != nil }
}
