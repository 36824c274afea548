import TestKit
import Testing

@testable import Operations

@Suite struct LogQueueTests {
    private static func queue(lines: Int = 1000, bytes: Int = 1000) -> LogQueue {
        LogQueue(.init(lines: lines, bytes: bytes)) { "(\($0))" }
    }

    /// Writes what waits; returns it.
    private static func drain(_ queue: inout LogQueue) -> [String] {
        var written: [String] = []
        while let line = queue.next {
            written.append(line)
            queue.ended(isWritten: true)
        }
        return written
    }

    @Test func linesBeyondTheLimitAreCountedInTheirPlace() {
        var queue = Self.queue(lines: 4)
        for line in ["a", "b", "c", "d", "e", "f"] { queue.add(line) }
        #expect(queue.dropped == 2)
        #expect(queue.next == "a")
        queue.ended(isWritten: true)
        queue.add("g")
        #expect(queue.dropped == 3, "half of the room is not free")
        queue.ended(isWritten: true)
        queue.add("h")
        #expect(Self.drain(&queue) == ["c", "d", "(3)", "h"])
        #expect(queue.dropped == 3)
        queue.add("i")
        #expect(Self.drain(&queue) == ["i"], "said once")
    }

    @Test func bytesAreBoundedToo() {
        var queue = Self.queue(bytes: 100)
        queue.add(String(repeating: "x", count: 101))
        #expect(queue.next == nil)
        queue.add(String(repeating: "y", count: 60))
        queue.add(String(repeating: "z", count: 60))
        #expect(queue.dropped == 2)
        #expect(Self.drain(&queue).map(\.count) == [3, 60, 3])
    }

    /// A disk that is full takes lines again later; a reader that is gone never does, and costs nothing.
    @Test func linesThatCannotBeWrittenAreCounted() {
        var queue = Self.queue()
        for line in ["a", "b"] { queue.add(line) }
        while queue.next != nil { queue.ended(isWritten: false) }
        #expect(queue.dropped == 2)
        queue.add("c")
        #expect(queue.next == "(2)")
        while queue.next != nil { queue.ended(isWritten: false) }
        #expect(queue.dropped == 3, "a notice is no line")
        queue.add("d")
        #expect(Self.drain(&queue) == ["(3)", "d"])
    }

    @Test(arguments: 0..<20) func everyLineIsWrittenOrCountedOnce(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = Self.queue(lines: 20, bytes: 500)
        var (added, written, mentioned) = (0, [Int](), 0)
        func take(_ isWritten: Bool) {
            guard let line = queue.next else { return }
            queue.ended(isWritten: isWritten)
            guard isWritten else { return }
            if line.hasPrefix("(") { mentioned += Int(line.dropFirst().dropLast()) ?? 0 }
            if let number = Int(line.prefix { $0 != " " }) { written.append(number) }
        }
        for _ in 0..<2000 {
            if Bool.random(using: &random) {
                added += 1
                queue.add("\(added) " + String(repeating: "x", count: .random(in: 0...60, using: &random)))
            } else {
                take(Int.random(in: 0..<20, using: &random) > 0)
            }
            #expect(queue.count <= 20)
        }
        while queue.next != nil { take(true) }
        // Mentions what was dropped last.
        queue.add("0")
        while queue.next != nil { take(true) }
        #expect(written.filter { $0 > 0 } == written.filter { $0 > 0 }.sorted())
        #expect(written.count { $0 > 0 } + mentioned == added)
        #expect(queue.dropped == mentioned)
    }
}
