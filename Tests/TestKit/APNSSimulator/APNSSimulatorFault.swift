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
        /// one; otherwise it is not processed, and may be sent again on another connection. Source: RFC 9113 §6.8
        case goAway(reason: String, processed: Bool)
        /// GOAWAY in any form.
        case farewell(APNSSimulatorGoAway)
        /// The TCP connection ends with FIN and nothing else, not even TLS's close_notify.
        case cut
        /// The TCP connection ends with RST.
        case reset
        /// FIN, but input is still read: the client's writes succeed and are never answered.
        case halfClose
        /// No answer to the request, the connection stays open. Immediate (`isImmediate`): `condition(.blackHole)`.
        case silence
        /// RST_STREAM with any error code instead of an answer. Source: RFC 9113 §7
        case resetStream(errorCode: Int)
        /// Another SETTINGS_MAX_CONCURRENT_STREAMS, at once and for new connections, as long as the fault is set. Open
        /// streams remain; `condition(.refusingStreamLimit)` ends them.
        case maxConcurrentStreams(Int)
        /// A condition of a connection, as long as the fault is set.
        case condition(APNSSimulatorCondition)
        /// A new connection fails before its first request.
        case connect(APNSSimulatorConnectFault)
        /// The port is closed as long as the fault is set: connects are refused, open connections stay.
        case closeListener
        /// The simulator's clock is shifted permanently: provider tokens expire.
        case clock(shiftMilliseconds: Int64)
    }

    /// One connection, chosen by age.
    public enum Choice: String, Hashable, Sendable, CaseIterable { case oldest, newest, busiest, random }

    /// The device token, in lower case; nil: all.
    public var token: String?
    /// The number of a connection; nil: all.
    public var connection: Int?
    /// One of the open connections, chosen when the fault is added (if none is open, all). Takes precedence over
    /// `connection`.
    public var choice: Choice?
    /// The number of requests affected (of `connect`: connections); nil: until cleared.
    public var count: Int?
    /// The probability for each of them; nil: certain.
    public var probability: Double?
    /// The lifetime of the fault; nil: until it is used up or cleared.
    public var lifetimeMilliseconds: Int?
    /// True if it takes effect immediately, on the open connections, instead of waiting for requests. For effects that
    /// end a connection, for `silence` and for `condition`, which then spares new connections.
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
    /// The event that a fault waits for.
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

    /// The condition that lasts as long as the fault.
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
