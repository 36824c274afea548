import Model
import NIOCore
import Store

/// The orders stored in Redis, for decisions that need them.
struct StandingOrders: Sendable {
    let store: OrderStore
    /// Takes the requests for orders that are cold.
    let requests: PackageRequests
    let views: StaleReadGuard
    let group: any EventLoopGroup

    /// Reads the current state of an order; nil if it does not exist or was removed.
    ///
    /// - Throws: `unavailable` while Redis is away or may have lost data.
    func state(of key: OrderKey) async throws(CheckoutFailure) -> OrderState? {
        let found: Result<OrderStore.StoredOrder?, StoreError>?
        do {
            guard let generation = try await self.views.currentGeneration(on: self.group.next()).get() else {
                throw CheckoutFailure.unavailable("the stored orders are being restored", retryAfterSeconds: 10)
            }
            found = try await self.store.orders([key]).first
            guard self.views.holds(generation) else {
                throw CheckoutFailure.unavailable("the stored orders are being restored", retryAfterSeconds: 10)
            }
        } catch let failure as CheckoutFailure {
            throw failure
        } catch {
            throw CheckoutFailure.unavailable("the order cannot be read right now")
        }
        switch found {
        case .success(let order?): return order.state.isRemoved ? nil : order.state
        case .success(nil), nil: return nil
        case .failure(let error) where error.code == .cold:
            // A packager reads it back, which takes milliseconds.
            _ = self.requests.add(key, on: self.group.next())
            throw CheckoutFailure.unavailable("the order is being read back", retryAfterSeconds: 1)
        case .failure: throw CheckoutFailure.unavailable("the order cannot be read right now")
        }
    }
}
