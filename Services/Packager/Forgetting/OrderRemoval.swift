import Kafka
import Model

/// The change that removes an order, for the first topic of changes.
enum OrderRemoval {
    /// - Parameter id: the same for two removals of which one is enough.
    static func message(of key: OrderKey, id: String, _ topics: Topics) -> KafkaMessage {
        let event: JSON = [
            "specversion": "1.0", "type": .string(ChangeType.orderRemoved.rawValue), "source": "waybill-packager",
            "id": .string(id), "subject": .string(key.description),
        ]
        return KafkaMessage(
            topic: topics.orderChanges, key: Array(key.description.utf8), value: event.serialized,
            headers: [KafkaHeader(name: "content-type", text: "application/cloudevents+json")])
    }
}
