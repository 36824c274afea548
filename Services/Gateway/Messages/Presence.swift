import Synchronization

/// The presence of a client on its connection.
///
/// For answers that take their time: a client that disconnected must not hold a place that others wait for.
final class Presence: Sendable {
    private let gone = Atomic(false)

    /// True if the client closed the connection, or its half of it.
    var isGone: Bool { self.gone.load(ordering: .relaxed) }

    func leave() { self.gone.store(true, ordering: .relaxed) }
}
