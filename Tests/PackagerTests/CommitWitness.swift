import Kafka
import Synchronization

/// A witness of the partitions that members of a group have, and of what each commits meanwhile.
final class CommitWitness: Sendable {
    private struct State {
        /// By partition, as `topic/number`.
        var owners: [String: Int] = [:]
        var highest: [String: Int64] = [:]
        var commits: [Int: Int] = [:]
        var faults: [String] = []
    }

    private let state = Mutex(State())

    /// The means by which one member reports its events.
    struct Member: Sendable {
        let number: Int
        let witness: CommitWitness

        /// Notes partitions that were assigned, revoked or lost, in the words of `KafkaEvent`.
        func told(_ kind: String, _ text: String) {
            let partitions = text.split(separator: " ").map(String.init)
            self.witness.state.withLock { state in
                for partition in partitions {
                    switch kind {
                    case "assigned":
                        if let owner = state.owners[partition], owner != self.number {
                            state.faults.append("\(partition) goes to \(self.number), and \(owner) has it")
                        }
                        state.owners[partition] = self.number
                    case "revoked", "lost": if state.owners[partition] == self.number { state.owners[partition] = nil }
                    default: break
                    }
                }
            }
        }

        /// Checks that a member commits only partitions that it owns, and that no offset goes back.
        var onCommit: @Sendable (KafkaConsumer.CommitMoment) -> Void {
            { moment in
                guard case .acknowledged(let positions) = moment else { return }
                self.witness.state.withLock { state in
                    state.commits[self.number, default: 0] += 1
                    for position in positions {
                        let name = "\(position.topic)/\(position.partition)"
                        if state.owners[name] != self.number {
                            state.faults.append("\(self.number) commits \(name), which it does not have")
                        }
                        if position.offset < state.highest[name] ?? 0 {
                            state.faults.append("\(name) goes back to \(position.offset)")
                        }
                        state.highest[name] = max(position.offset, state.highest[name] ?? 0)
                    }
                }
            }
        }
    }

    func member(_ number: Int) -> Member { Member(number: number, witness: self) }
    var faults: [String] { self.state.withLock { $0.faults } }
    /// Returns the number of times that a member committed.
    func count(of number: Int) -> Int { self.state.withLock { $0.commits[number] ?? 0 } }
}
