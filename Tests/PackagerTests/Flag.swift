import Synchronization

/// A flag that is set once.
final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { self.value.load(ordering: .acquiring) }
    func set() { self.value.store(true, ordering: .releasing) }
}
