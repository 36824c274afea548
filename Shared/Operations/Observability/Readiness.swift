import Synchronization

/// What a service still waits for before it can do its work. Ready means that nothing is left.
public final class Readiness: Sendable {
    private let missing: Mutex<[String: String]>

    /// - Parameter conditions: what must be met, each a short name such as `redis`.
    public init(conditions: [String]) {
        self.missing = Mutex(Dictionary(conditions.map { ($0, "not yet") }) { first, _ in first })
    }

    public func met(_ condition: String) { self.missing.withLock { $0[condition] = nil } }

    /// - Parameter reason: for `/readyz`; no secrets.
    public func unmet(_ condition: String, _ reason: String) { self.missing.withLock { $0[condition] = reason } }

    /// Says more of a condition, if it is not met.
    public func explain(_ condition: String, _ reason: String) {
        self.missing.withLock { if $0[condition] != nil { $0[condition] = reason } }
    }

    /// What is missing, `name: reason` sorted; empty when ready.
    public var reasons: [String] {
        self.missing.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }
}
