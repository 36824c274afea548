/// Information about one open connection.
public struct APNSSimulatorConnectionInformation: Hashable, Sendable {
    /// From 1.
    public let number: Int
    public let openStreams: Int
    /// `certificate`, `token`, or `none` until the first valid token.
    public let authentication: String
    /// The topic of the client's certificate.
    public let certificateTopic: String?
    public let requests: Int
    /// Streams that were refused because the limit was reached.
    public let refusedStreams: Int

    init(_ connection: APNSSimulatorConnection) {
        self.number = connection.number
        self.openStreams = connection.openStreams
        self.authentication = connection.authentication
        self.certificateTopic = connection.certificateTopic
        self.requests = connection.requests
        self.refusedStreams = connection.refusedStreams
    }

    var json: String {
        var text = "{\"id\":\(self.number),\"openStreams\":\(self.openStreams),\"authentication\":"
        text.appendJSON(self.authentication)
        text += ",\"certificateTopic\":"
        text.appendJSON(self.certificateTopic)
        return text + ",\"requests\":\(self.requests),\"refusedStreams\":\(self.refusedStreams)}"
    }
}

extension APNSSimulatorState {
    /// All open connections, oldest first.
    var connectionInformation: [APNSSimulatorConnectionInformation] {
        self.connections.values.map { APNSSimulatorConnectionInformation($0) }.sorted { $0.number < $1.number }
    }
}
