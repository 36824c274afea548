import Synchronization

/// The conditions that a service still waits for before it can do its work. Ready means that none is left.
///
/// A condition is about what the process can do by its own means. An upstream that is away is a remark.
public final class Readiness: Sendable {
    private let missing: Mutex<[String: String]>
    private let notes = Mutex<[String: String]>([:])

    /// - Parameter conditions: the conditions to be met, each a short name such as `redis`.
    public init(conditions: [String]) {
        self.missing = Mutex(Dictionary(conditions.map { ($0, "not yet") }) { first, _ in first })
    }

    public func met(_ condition: String) { self.missing.withLock { $0[condition] = nil } }

    /// - Parameter reason: for `/readyz`; no secrets.
    public func unmet(_ condition: String, _ reason: String) { self.missing.withLock { $0[condition] = reason } }

    /// Sets the reason of a condition, if it is not met.
    public func explain(_ condition: String, _ reason: String) {
        self.missing.withLock { if $0[condition] != nil { $0[condition] = reason } }
    }

    /// Adds a remark to `/readyz` about a fault that another process of the same kind would have as well; it does not
    /// make the service unready.
    ///
    /// - Parameter reason: no secrets; nil removes the remark.
    public func note(_ condition: String, _ reason: String?) { self.notes.withLock { $0[condition] = reason } }

    /// Remarks about a service that may be ready, `name: reason` sorted.
    public var remarks: [String] {
        self.notes.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }

    /// The names of the unmet conditions, sorted; empty when ready.
    var missingConditions: [String] { self.missing.withLock { $0.keys.sorted() } }

    /// The unmet conditions, `name: reason` sorted; empty when ready.
    public var reasons: [String] {
        self.missing.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }
}
