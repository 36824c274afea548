import NIOCore

/// A heap of answers that wait for their deadlines.
///
/// One timer serves all of them, so answers of the same millisecond are sent in one burst.
struct APNSSimulatorLateAnswers {
    /// An answer that is decided and not sent yet.
    struct Entry {
        let deadline: NIODeadline
        let order: UInt64
        let connection: Int
        let stream: Int
        let answer: APNSSimulatorAnswer
        let identifier: APNSSimulatorIdentifier

        fileprivate func isBefore(_ other: Entry) -> Bool {
            self.deadline == other.deadline ? self.order < other.order : self.deadline < other.deadline
        }
    }

    private var heap: [Entry] = []
    private var order: UInt64 = 0

    /// The time when the next answer is due.
    var next: NIODeadline? { self.heap.first?.deadline }

    mutating func add(
        _ answer: APNSSimulatorAnswer, _ identifier: APNSSimulatorIdentifier, connection: Int, stream: Int,
        at deadline: NIODeadline
    ) {
        self.order += 1
        self.heap.append(
            Entry(
                deadline: deadline, order: self.order, connection: connection, stream: stream, answer: answer,
                identifier: identifier))
        var child = self.heap.count - 1
        while child > 0, self.heap[child].isBefore(self.heap[(child - 1) / 2]) {
            self.heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the next answer if it is due.
    mutating func take(due now: NIODeadline) -> Entry? {
        guard let first = self.heap.first, first.deadline <= now else { return nil }
        let last = self.heap.removeLast()
        guard !self.heap.isEmpty else { return first }
        self.heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < self.heap.count && self.heap[child].isBefore(self.heap[least]) { least = child }
            if least == parent { return first }
            self.heap.swapAt(parent, least)
            parent = least
        }
    }
}
