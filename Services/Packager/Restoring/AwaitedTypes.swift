import Model
import Synchronization

/// Types of which orders are still to be restored, as the view says; kept by `ViewRecovery`.
///
/// For whoever can put work off early. What it says may be a second old: `OrderStore` reads no order of such a type.
final class AwaitedTypes: Sendable {
    private let types = Mutex<Set<OrderTypeIdentifier>>([])

    var current: Set<OrderTypeIdentifier> { self.types.withLock { $0 } }

    func update(_ types: Set<OrderTypeIdentifier>) { self.types.withLock { $0 = types } }
}
