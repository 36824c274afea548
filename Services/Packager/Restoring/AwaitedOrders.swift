import Model
import Synchronization

/// Orders of one partition that cannot be packaged until their brands load.
struct AwaitedOrders: Hashable, Sendable {
    /// Of the first of them.
    let offset: Int64
    let types: Set<OrderTypeIdentifier>

    func merging(_ other: AwaitedOrders?) -> AwaitedOrders {
        guard let other else { return self }
        return AwaitedOrders(offset: min(self.offset, other.offset), types: self.types.union(other.types))
    }
}

/// Types of which orders are still to be restored, as the view says; kept by `ViewKeeper`.
///
/// For whoever can put work off early. What it says may be a second old: `OrderStore` reads no order of such a type.
final class AwaitedTypes: Sendable {
    private let types = Mutex<Set<OrderTypeIdentifier>>([])

    var current: Set<OrderTypeIdentifier> { self.types.withLock { $0 } }

    func update(_ types: Set<OrderTypeIdentifier>) { self.types.withLock { $0 = types } }
}
