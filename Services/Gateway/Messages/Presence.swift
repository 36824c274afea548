import Synchronization

/// Whether a client still is at the other end of its connection.
///
/// For answers that take their time: nobody else has to wait for the place of a client that went away.
final class Presence: Sendable {
    private let gone = Atomic(false)

    /// Whether the client closed the connection, or its half of it.
    var isGone: Bool { self.gone.load(ordering: .relaxed) }

    func leave() { self.gone.store(true, ordering: .relaxed) }
}
