/// One notification that arrived, with its answer.
public struct APNSSimulatorDelivery: Hashable, Sendable {
    /// From 1, never used twice.
    public let sequence: UInt64
    /// The device token from the path.
    public let token: String
    /// The topic of the request, or the certificate's if the request has none; empty without either.
    public let topic: String
    /// The client's identifier if it was valid, otherwise the simulator's.
    public let apnsID: APNSSimulatorIdentifier
    public let pushType: String?
    /// 10 if the request has none; 0 if it is not a number.
    public let priority: Int
    public let expirationEpochSeconds: Int64?
    public let collapseIdentifier: String?
    /// 0 if a fault left the request without an answer.
    public let status: Int
    public let reason: String?
    /// The simulator's time when the last byte had arrived.
    public let receivedEpochMilliseconds: Int64
    /// The number of its connection, counted from 1.
    public let connection: Int

    /// Appends the delivery as a JSON object.
    func write(to text: inout String) {
        text += "{\"sequence\":\(self.sequence),\"token\":"
        text.appendJSON(self.token)
        text += ",\"topic\":"
        text.appendJSON(self.topic)
        text += ",\"apnsID\":\"\(self.apnsID)\",\"pushType\":"
        text.appendJSON(self.pushType)
        text += ",\"priority\":\(self.priority),\"expiration\":"
        text += self.expirationEpochSeconds.map { String($0) } ?? "null"
        text += ",\"collapseID\":"
        text.appendJSON(self.collapseIdentifier)
        text += ",\"status\":\(self.status),\"reason\":"
        text.appendJSON(self.reason)
        text += ",\"receivedEpochMilliseconds\":\(self.receivedEpochMilliseconds),\"connection\":\(self.connection)}"
    }
}
