/// A page of the deliveries, oldest first.
public struct APNSSimulatorDeliveries: Hashable, Sendable {
    public var deliveries: [APNSSimulatorDelivery]
    /// The sequence to pass in the next request.
    public var last: UInt64
    /// The number of deliveries dropped from the journal since the start.
    public var dropped: UInt64

    /// The answer of `GET /deliveries`.
    var json: String {
        var text = "{\"deliveries\":["
        text.reserveCapacity(64 + self.deliveries.count * 320)
        for (index, delivery) in self.deliveries.enumerated() {
            if index > 0 { text += "," }
            delivery.write(to: &text)
        }
        return text + "],\"last\":\(self.last),\"dropped\":\(self.dropped)}"
    }
}
