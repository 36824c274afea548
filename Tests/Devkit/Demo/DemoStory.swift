import Model

/// The updates of the example orders after they were placed, which the demo publishes one after the other.
enum DemoStory {
    struct Update: Sendable {
        /// For people: the event in the story.
        let headline: String
        let type: CloudEvent.ChangeType
        let data: JSON
    }

    /// Returns the updates of an order, by the number at the beginning of its example's file name.
    static func updates(of example: String) -> [Update] {
        switch example.prefix(2) {
        case "01":
            [
                Update(
                    headline: "first parcel delivered", type: .fulfillmentUpdated,
                    data: [
                        "fulfillmentIdentifier": "ship-1", "status": "delivered",
                        "deliveredAt": "2025-03-05T19:02:00Z", "statusDescription": "Left at the front door.",
                    ]),
                Update(
                    headline: "second parcel shipped", type: .fulfillmentUpdated,
                    data: [
                        "fulfillmentIdentifier": "ship-2", "status": "shipped", "shippedAt": "2025-03-06T08:30:00Z",
                        "carrier": "Example Parcel", "trackingNumber": "EP987654321US",
                    ]),
                Update(
                    headline: "second parcel delivered, order completed", type: .patched,
                    data: ["status": "completed", "statusDescription": "Everything has arrived."]),
            ]
        case "02":
            [
                Update(
                    headline: "picked up at the counter", type: .fulfillmentUpdated,
                    data: [
                        "fulfillmentIdentifier": "pickup-1", "status": "pickedUp",
                        "pickedUpAt": "2025-06-20T10:21:00+02:00",
                    ]),
                Update(headline: "order completed", type: .patched, data: ["status": "completed"]),
            ]
        case "03":
            [
                Update(
                    headline: "a second return begins", type: .returnUpdated,
                    data: [
                        "returnIdentifier": "ret-2", "status": "open", "initiatedAt": "2025-02-01T09:00:00Z",
                        "dropOffBy": "2025-02-09T18:00:00Z", "returnLabel": "return-label.pdf",
                    ]),
                Update(
                    headline: "the second return is on its way", type: .returnUpdated,
                    data: ["returnIdentifier": "ret-2", "status": "onTheWay", "carrier": "Example Couriers"]),
            ]
        case "05":
            [
                Update(
                    headline: "out for delivery", type: .fulfillmentUpdated,
                    data: ["fulfillmentIdentifier": "f1", "status": "outForDelivery"]),
                Update(
                    headline: "delivered", type: .fulfillmentUpdated,
                    data: [
                        "fulfillmentIdentifier": "f1", "status": "delivered",
                        "deliveredAt": "2025-05-14T11:05:00+09:00",
                    ]),
            ]
        default:
            [Update(headline: "a note for the customer", type: .patched, data: ["statusDescription": "Thank you."])]
        }
    }
}
