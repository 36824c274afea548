import Foundation

/// A command of the fault driver on standard input, one per line.
enum ChaosControl: Hashable, Sendable {
    /// `mark NAME`: the fault of that name is over; measure the time until the system has recovered.
    case mark(String)
    /// `pause`: stop publishing, and report when everything published is acknowledged.
    case pause
    /// `move HOST:PORT`: from now on, Kafka is at this address; no service writes to the old one. Publishing resumes.
    case move(String)
    /// `forget COUNT`: forget this many orders, as an operator does, while everything goes on.
    case forget(Int)
    /// `end`, or the end of the input: no more faults will follow, and everything is running.
    case end

    init?(_ line: String) {
        let words = line.split(separator: " ")
        switch (words.first, words.count) {
        case ("mark", 2): self = .mark(String(words[1]))
        case ("pause", 1): self = .pause
        case ("move", 2): self = .move(String(words[1]))
        case ("forget", 2):
            guard let count = Int(words[1]), (1...100).contains(count) else { return nil }
            self = .forget(count)
        case ("end", 1): self = .end
        default: return nil
        }
    }

    /// Returns the commands as they arrive; the stream ends after `end`. A dedicated thread reads them and blocks while
    /// the program runs.
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
