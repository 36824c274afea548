import Synchronization

/// A flag that is set once.
public final class Flag: Sendable {
    private let value = Atomic(false)
    public var isSet: Bool { self.value.load(ordering: .acquiring) }
    public init() {}
    public func set() { self.value.store(true, ordering: .releasing) }
}
