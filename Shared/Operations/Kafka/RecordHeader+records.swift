public import Kafka
public import Model

extension KafkaHeader {
    public init(_ header: RecordHeader, text: String) { self.init(name: header.rawValue, text: text) }

    public init(_ header: RecordHeader, value: [UInt8]) { self.init(name: header.rawValue, value: value) }
}

extension Sequence<KafkaHeader> {
    /// The last value of a header as text; nil if it is not there.
    public func text(_ header: RecordHeader) -> String? {
        self.value(header).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The last value of a header; nil if it is not there, or has none.
    public func value(_ header: RecordHeader) -> [UInt8]? {
        let name = header.rawValue
        var last: [UInt8]?
        for other in self where other.name == name { last = other.value }
        return last
    }

    /// The headers of a record from a topic that others write to, without those that only Waybill writes.
    ///
    /// - Parameter kept: a header that is data.
    public func withoutReserved(except kept: RecordHeader? = nil) -> [KafkaHeader] {
        self.filter { !RecordHeader.isReserved($0.name) || $0.name == kept?.rawValue }
    }
}

extension [KafkaHeader] {
    /// The place where the headers begin that the writer of a dead letter added; nil if it is none.
    ///
    /// Those of the record come before, so none of them is taken for one of Waybill's, whatever its name is.
    public var startOfDeadLetter: Int? { self.lastIndex { $0.name == RecordHeader.error.rawValue } }
}
