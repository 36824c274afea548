/// Something that goes wrong on purpose.
public struct APNSSimulatorFault: Hashable, Sendable {
    /// What happens.
    public enum Effect: Hashable, Sendable {
        /// Another answer, at once or late.
        case answer(APNSSimulatorAnswer, delayMilliseconds: Int)
        /// The usual answer, late.
        case delay(milliseconds: Int)
        /// The usual answer, late by a number of milliseconds drawn for each request.
        case randomDelay(ClosedRange<Int>)
        /// GOAWAY with a reason in its debug data. `processed`: the request that caused it is answered and is the last
        /// one; otherwise it is not processed, and may be sent again elsewhere. Source: RFC 9113 §6.8
        case goAway(reason: String, processed: Bool)
        /// GOAWAY in any form.
        case farewell(APNSSimulatorGoAway)
        /// The TCP connection ends with FIN and no other word, not even TLS's.
        case cut
        /// The TCP connection ends with RST.
        case reset
        /// FIN, but what comes is read on: the client's writes succeed and nothing is ever answered.
        case halfClose
        /// No answer to the request, the connection stays. At once (`isImmediate`): `condition(.blackHole)`.
        case silence
        /// RST_STREAM with any error code instead of an answer. Source: RFC 9113 §7
        case resetStream(errorCode: Int)
        /// Another SETTINGS_MAX_CONCURRENT_STREAMS, at once and for new connections, as long as the fault stands.
        /// Streams that are open stay; `condition(.refusingStreamLimit)` ends them.
        case maxConcurrentStreams(Int)
        /// A connection is ill as long as the fault stands.
        case condition(APNSSimulatorCondition)
        /// A new connection goes wrong before its first request.
        case connect(APNSSimulatorConnectFault)
        /// The port is closed as long as the fault stands: connects are refused, open connections stay.
        case closeListener
        /// The simulator's clock moves, for good: provider tokens expire.
        case clock(shiftMilliseconds: Int64)
    }

    /// One connection that is not known by its number.
    public enum Choice: String, Hashable, Sendable, CaseIterable { case oldest, newest, busiest, random }

    /// The device token, in lower case; nil: all.
    public var token: String?
    /// The number of a connection; nil: all.
    public var connection: Int?
    /// One of the open connections, chosen when the fault is put up (if none is open, all are meant). Goes before
    /// `connection`.
    public var choice: Choice?
    /// How many requests are hit (of `connect`: how many connections); nil: until cleared.
    public var count: Int?
    /// How likely each of them is hit; nil: certainly.
    public var probability: Double?
    /// How long the fault stands; nil: until it is used up or cleared.
    public var lifetimeMilliseconds: Int?
    /// Happens now, on the open connections, instead of waiting for requests. Of what ends a connection, of `silence`
    /// and of `condition`, which then spares new connections.
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
    /// What a fault waits for.
    enum Stage: Hashable { case request, connections, connect, listener, now }

    /// A condition with a token, a count or a probability waits for a request and then befalls its connection.
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

    /// The condition that stands with the fault.
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
