import Model
import Synchronization

/// The types whose orders are still to be restored, according to the view; updated by `ViewRecovery`.
///
/// Lets callers postpone work early. It may be a second old: `OrderStore` itself reads no order of such a type.
final class AwaitedTypes: Sendable {
    private let types = Mutex<Set<OrderTypeIdentifier>>([])

    var current: Set<OrderTypeIdentifier> { self.types.withLock { $0 } }

    func update(_ types: Set<OrderTypeIdentifier>) { self.types.withLock { $0 = types } }
}
