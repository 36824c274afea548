/// A position in a topic, `partition/offset`: that of a dead letter, or that of its change.
struct DeadLetterPosition: Hashable, Comparable, Sendable, CustomStringConvertible {
    let partition: Int32
    let offset: Int64

    init(partition: Int32, offset: Int64) {
        self.partition = partition
        self.offset = offset
    }

    /// - Returns: nil when the text is not two numbers with a slash between.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let partition = Int32(parts[0]), let offset = Int64(parts[1]), partition >= 0,
            offset >= 0, offset < .max
        else { return nil }
        self.init(partition: partition, offset: offset)
    }

    var description: String { "\(self.partition)/\(self.offset)" }

    static func < (left: Self, right: Self) -> Bool {
        (left.partition, left.offset) < (right.partition, right.offset)
    }
}
