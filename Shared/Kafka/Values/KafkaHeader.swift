/// A header of a record: a name and bytes, or none.
public struct KafkaHeader: Hashable, Sendable {
    public let name: String
    /// nil is a header without a value, which is not the empty value.
    public let value: [UInt8]?

    public init(name: String, value: [UInt8]?) {
        self.name = name
        self.value = value
    }

    public init(name: String, text: String) {
        self.init(name: name, value: Array(text.utf8))
    }
}
