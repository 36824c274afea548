import Cryptography
import Kafka
import Model

/// A line of an import, as the change that it becomes. No I/O, no clock.
///
/// A line is an event of `waybill.order-changes` in structured mode, or a document in the form of `order.json` with its
/// `orderIdentifier`.
struct ImportedLine: Sendable {
    /// The attributes of documents, which have no envelope.
    struct Defaults: Sendable {
        /// The order type of documents without `orderTypeIdentifier`.
        var orderType: OrderTypeIdentifier?
        /// The `source` of their changes.
        var source = "/import"
        /// The time of their changes: members that other sources wrote later stay.
        var time = ""
        /// False if devices are to be notified.
        var isSilent = true
    }

    let change: OrderChange
    /// The event in structured mode.
    let value: [UInt8]

    /// - Throws: `ChangeFault` with the reason why no order can take the line.
    init(_ line: [UInt8], _ defaults: Defaults) throws(ChangeFault) {
        guard line.count <= OrderChange.valueLimit else {
            throw ChangeFault(
                code: .valueTooLarge,
                reason: "the line has more than \(OrderChange.valueLimit) bytes, which a change may have")
        }
        let json: JSON
        do {
            json = try JSON(parsing: line)
        } catch {
            throw ChangeFault(code: .invalidJSON, reason: "the line is not JSON: \(error)")
        }
        guard let object = json.object else {
            throw ChangeFault(code: .invalidEvent, reason: "the line must be an object, it is \(json.kind)")
        }
        var event = object["specversion"] == nil ? try Self.event(of: object, line, defaults) : object
        if defaults.isSilent { event["silent"] = true }
        guard let subject = event["subject"]?.string else {
            throw ChangeFault(code: .invalidEvent, reason: "subject is missing")
        }
        self.value = JSON.object(event).serialized
        self.change = try OrderChange.decode(
            key: Array(subject.utf8), event: event, value: self.value, headers: [])
    }

    /// Returns the event of a document.
    private static func event(
        of document: JSONObject, _ line: [UInt8], _ defaults: Defaults
    ) throws(ChangeFault) -> JSONObject {
        guard let order = document["orderIdentifier"]?.string else {
            throw ChangeFault(code: .invalidEvent, reason: "$.orderIdentifier is missing, or no text")
        }
        guard let type = document["orderTypeIdentifier"]?.string ?? defaults.orderType?.rawValue else {
            throw ChangeFault(
                code: .invalidEvent, reason: "$.orderTypeIdentifier is missing: name it, or give --order-type")
        }
        var data = document
        data["orderIdentifier"] = nil
        data["orderTypeIdentifier"] = nil
        return [
            "specversion": "1.0", "type": .string(ChangeType.orderMerged.rawValue), "source": .string(defaults.source),
            // The same line is the same change, however often it is imported.
            "id": .string(String(SHA256.hex(line).prefix(32))), "time": .string(defaults.time),
            "subject": .string("\(type)/\(order)"), "data": .object(data),
        ]
    }

    /// Returns the reason why the packager would refuse the change of an order that it does not have; nil for none.
    ///
    /// - Parameter folds: those of the brands that there are.
    func fault(_ folds: [OrderTypeIdentifier: OrderFold], nowEpochSeconds: Int64) -> ChangeFault? {
        guard let fold = folds[self.change.key.orderType] else {
            return ChangeFault(
                code: .unknownOrder, reason: "there is no brand for the order type \(self.change.key.orderType)")
        }
        // An order that exists decides about a change of a part.
        return self.change.isPartial ? nil : fold.refusal(of: self.change, to: nil, nowEpochSeconds: nowEpochSeconds)
    }

    func message(topic: String) -> KafkaMessage {
        KafkaMessage(
            topic: topic, key: Array(self.change.key.description.utf8), value: self.value,
            headers: [KafkaHeader(name: "content-type", text: "application/cloudevents+json")])
    }
}
