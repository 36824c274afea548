public import Kafka

#if DEBUG
    import FoundationEssentials
#endif

/// A defect that only one record shows: a debug build traps before it decodes a record that has the text of
/// `WAYBILL_TRAP_AT` in its value. A release build has none of it.
public enum RecordTrap {
    @inline(__always)
    public static func decoding(_ record: KafkaRecord) {
        #if DEBUG
            guard let text = Self.text, let value = record.value, value.count >= text.count else { return }
            for start in 0...value.count - text.count where value[start..<start + text.count].elementsEqual(text) {
                fatalError("a planted defect")  // tidy: tests ask for it
            }
        #endif
    }

    #if DEBUG
        private static let text = ProcessInfo.processInfo.environment["WAYBILL_TRAP_AT"].map { Array($0.utf8) }
    #endif
}
