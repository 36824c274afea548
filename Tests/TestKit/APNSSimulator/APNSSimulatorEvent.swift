/// An observation or action of the simulator: an element of `GET /journal`.
public struct APNSSimulatorEvent: Hashable, Sendable {
    /// The kind of event.
    public enum Kind: Hashable, Sendable {
        /// A TLS handshake was completed.
        case opened(authentication: String, topic: String?, streamLimit: Int)
        /// `byClient`: true if no fault, GOAWAY or answer of the simulator was a cause to end the connection.
        case closed(byClient: Bool, requests: Int)
        /// A connection was refused before it could be used.
        case refused(how: String)
        /// SETTINGS other than the first were sent, with this stream limit.
        case settings(streamLimit: Int)
        case settingsAcknowledged(streamLimit: Int)
        case goAwaySent(last: Int, errorCode: Int, debug: String)
        case goAwayReceived(errorCode: Int)
        case ping
        case request(APNSSimulatorVerdict)
        case reset(stream: Int, errorCode: Int, byClient: Bool)
        /// A fault was added, with its number, or performed immediately, without one.
        case fault(number: Int?, connections: Int)
        /// The lifetime of a fault ended.
        case faultOver(number: Int)
        case violation(APNSSimulatorViolation, stream: Int?)
    }

    /// From 1, never used twice.
    public let sequence: UInt64
    public let epochMilliseconds: Int64
    /// From 1; 0 for no particular connection.
    public let connection: Int
    public let kind: Kind
}

/// The outcome of a request.
public struct APNSSimulatorVerdict: Hashable, Sendable {
    public let stream: Int
    /// The sequence of the request in the deliveries.
    public let delivery: UInt64
    /// 0 if the request gets no answer.
    public let status: Int
    public let reason: String?
    /// The delay of the answer.
    public let delayMilliseconds: Int
    /// The header fields that are in HPACK's table or were added to it. Source: RFC 7541 §6.2
    public let indexed: APNSSimulatorRequest.Fields
}

/// A page of the journal, oldest first.
public struct APNSSimulatorEvents: Hashable, Sendable {
    public var events: [APNSSimulatorEvent]
    /// The sequence to pass in the next request.
    public var last: UInt64
    /// The number of events dropped from the journal since the start.
    public var dropped: UInt64
}

extension APNSSimulatorEvents {
    /// The answer of `GET /journal`.
    var json: String {
        var text = "{\"events\":["
        for (index, event) in self.events.enumerated() {
            if index > 0 { text += "," }
            event.write(to: &text)
        }
        return text + "],\"last\":\(self.last),\"dropped\":\(self.dropped)}"
    }
}

extension APNSSimulatorEvent {
    /// Appends the event as a JSON object.
    func write(to text: inout String) {
        text += "{\"sequence\":\(self.sequence),\"epochMilliseconds\":\(self.epochMilliseconds)"
        text += ",\"connection\":\(self.connection),\"event\":"
        switch self.kind {
        case .opened(let authentication, let topic, let limit):
            text += "\"opened\",\"authentication\":\"\(authentication)\",\"streamLimit\":\(limit),\"certificateTopic\":"
            text.appendJSON(topic)
        case .closed(let byClient, let requests):
            text += "\"closed\",\"byClient\":\(byClient),\"requests\":\(requests)"
        case .refused(let how): text += "\"refused\",\"how\":\"\(how)\""
        case .settings(let limit): text += "\"settings\",\"streamLimit\":\(limit)"
        case .settingsAcknowledged(let limit): text += "\"settingsAcknowledged\",\"streamLimit\":\(limit)"
        case .goAwaySent(let last, let code, let debug):
            text += "\"goAwaySent\",\"last\":\(last),\"errorCode\":\(code),\"debug\":"
            text.appendJSON(debug)
        case .goAwayReceived(let code): text += "\"goAwayReceived\",\"errorCode\":\(code)"
        case .ping: text += "\"ping\""
        case .request(let verdict): verdict.write(to: &text)
        case .reset(let stream, let code, let byClient):
            text += "\"reset\",\"stream\":\(stream),\"errorCode\":\(code),\"byClient\":\(byClient)"
        case .fault(let number, let connections):
            text += "\"fault\",\"fault\":\(number.map { String($0) } ?? "null"),\"connections\":\(connections)"
        case .faultOver(let number): text += "\"faultOver\",\"fault\":\(number)"
        case .violation(let violation, let stream):
            text += "\"violation\",\"violation\":\"\(violation.rawValue)\""
            if let stream { text += ",\"stream\":\(stream)" }
        }
        text += "}"
    }
}

extension APNSSimulatorVerdict {
    fileprivate func write(to text: inout String) {
        text += "\"request\",\"stream\":\(self.stream),\"delivery\":\(self.delivery),\"status\":\(self.status)"
        text += ",\"reason\":"
        text.appendJSON(self.reason)
        text += ",\"delayMilliseconds\":\(self.delayMilliseconds),\"indexed\":["
        text += self.indexed.names.map { "\"\($0)\"" }.joined(separator: ",") + "]"
    }
}
