import Synchronization

/// Is set once.
final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { self.value.load(ordering: .acquiring) }
    func set() { self.value.store(true, ordering: .releasing) }
}
