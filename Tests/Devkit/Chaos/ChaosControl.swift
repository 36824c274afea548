import Foundation

/// A command of the fault driver on standard input, one per line.
enum ChaosControl: Hashable, Sendable {
    /// `mark NAME`: a fault of that name is over; measure the time until all has recovered.
    case mark(String)
    /// `pause`: publish nothing more, and say when all that was published is acknowledged.
    case pause
    /// `move HOST:PORT`: Kafka is there from now on; nobody writes to the one before. Publishing goes on.
    case move(String)
    /// `end`, or the end of the input: no more faults will come, and everything runs.
    case end

    init?(_ line: String) {
        let words = line.split(separator: " ")
        switch (words.first, words.count) {
        case ("mark", 2): self = .mark(String(words[1]))
        case ("pause", 1): self = .pause
        case ("move", 2): self = .move(String(words[1]))
        case ("end", 1): self = .end
        default: return nil
        }
    }

    /// The commands as they come; ends after `end`. Reads on a thread of its own, which waits as long as the program
    /// runs.
    static func commands() -> AsyncStream<ChaosControl> {
        AsyncStream { continuation in
            Thread.detachNewThread {
                while let line = readLine() {
                    guard let command = ChaosControl(line) else {
                        Console.progress("chaos: \"\(line)\" is no command")
                        continue
                    }
                    if command == .end { break }
                    continuation.yield(command)
                }
                continuation.yield(.end)
                continuation.finish()
            }
        }
    }
}
