/// Puts the elements that the reader reports one after the other together into one reply.
///
/// A class because hiredis keeps its address while it parses.
final class ReplyBuilder {
    private struct OpenArray {
        var missing: Int
        var values: [RedisValue]
    }

    private let elementLimit: Int
    private var elements = 0
    private var open: [OpenArray] = []
    private var complete: RedisValue?
    /// Why an element was refused.
    private(set) var refusal: String?

    init(elementLimit: Int) { self.elementLimit = elementLimit }

    /// The reply, once, when all of its elements were added.
    func takeReply() -> RedisValue? {
        defer {
            self.complete = nil
            self.elements = 0
        }
        return self.complete
    }

    /// Begins an array; the next `count` elements belong to it.
    /// - Returns: false if the reply has too many elements.
    func open(count: Int) -> Bool {
        guard count > 0 else { return self.add(.array([])) }
        guard self.admit(count) else { return false }
        var values: [RedisValue] = []
        // The count is the peer's claim: room is made for a few, more as they come.
        values.reserveCapacity(min(count, 64))
        self.open.append(OpenArray(missing: count, values: values))
        return true
    }

    /// Adds one element and closes the arrays that it completes.
    func add(_ value: RedisValue) -> Bool {
        var value = value
        while !self.open.isEmpty {
            let last = self.open.count - 1
            self.open[last].values.append(value)
            self.open[last].missing -= 1
            guard self.open[last].missing == 0 else { return true }
            value = .array(self.open.removeLast().values)
        }
        self.complete = value
        return true
    }

    private func admit(_ count: Int) -> Bool {
        guard count <= self.elementLimit - self.elements else {
            self.refusal = "more than \(self.elementLimit) elements"
            return false
        }
        self.elements += count
        return true
    }
}
