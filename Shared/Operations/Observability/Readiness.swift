import Synchronization

/// What a service still waits for before it can do its work. Ready means that nothing is left.
public final class Readiness: Sendable {
    private let missing: Mutex<[String: String]>
    private let notes = Mutex<[String: String]>([:])

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

    /// Says in `/readyz` what another process of the same kind could do no better; that does not make it unready.
    ///
    /// - Parameter reason: no secrets; nil: there is nothing to say any more.
    public func note(_ condition: String, _ reason: String?) { self.notes.withLock { $0[condition] = reason } }

    /// Remarks about a service that may be ready, `name: reason` sorted.
    public var remarks: [String] {
        self.notes.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }

    /// The names of what is missing, sorted; empty when ready.
    public var missingConditions: [String] { self.missing.withLock { $0.keys.sorted() } }

    /// What is missing, `name: reason` sorted; empty when ready.
    public var reasons: [String] {
        self.missing.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }
}
