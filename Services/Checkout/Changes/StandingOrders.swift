import Model
import NIOCore
import Store

/// The orders stored in Redis, for decisions that need them.
struct StandingOrders: Sendable {
    let store: OrderStore
    let reader: PackageReader
    /// Takes the requests for orders that are cold.
    let requests: PackageRequests
    let views: StaleReadGuard
    let group: any EventLoopGroup

    /// Reads the authentication token of an order, of a cold one as well; nil if it does not exist or was removed.
    ///
    /// - Throws: `unavailable` while Redis is away or may have lost data.
    func token(of key: OrderKey) async throws(CheckoutFailure) -> AuthenticationToken? {
        try await self.certain { eventLoop in
            let standing = try await self.reader.lookup(of: key, on: eventLoop).get()
            guard standing.isComplete else { throw CheckoutFailure.restoring }
            return standing.stamp?.token
        }
    }

    /// Reads the current state of an order; nil if it does not exist or was removed.
    ///
    /// - Throws: `unavailable` while Redis is away or may have lost data.
    func state(of key: OrderKey) async throws(CheckoutFailure) -> OrderState? {
        let found = try await self.certain { _ in try await self.store.orders([key]).first }
        switch found {
        case .success(let order?): return order.state.isRemoved ? nil : order.state
        case .success(nil), nil: return nil
        case .failure(let error) where error.code == .cold:
            // A packager reads it back, which takes milliseconds.
            _ = self.requests.add(key, on: self.group.next())
            throw CheckoutFailure.unavailable("the order is being read back", retryAfterSeconds: 1)
        case .failure: throw CheckoutFailure.unreadable
        }
    }

    /// Reads from a view that is complete before and after it.
    private func certain<Value: Sendable>(
        _ read: (any EventLoop) async throws -> Value
    ) async throws(CheckoutFailure) -> Value {
        let eventLoop = self.group.next()
        do {
            guard let generation = try await self.views.currentGeneration(on: eventLoop).get() else {
                throw CheckoutFailure.restoring
            }
            let value = try await read(eventLoop)
            guard self.views.holds(generation) else { throw CheckoutFailure.restoring }
            return value
        } catch let failure as CheckoutFailure {
            throw failure
        } catch {
            throw CheckoutFailure.unreadable
        }
    }
}

extension CheckoutFailure {
    fileprivate static var restoring: CheckoutFailure {
        .unavailable("the stored orders are being restored", retryAfterSeconds: 10)
    }
    fileprivate static var unreadable: CheckoutFailure { .unavailable("the order cannot be read right now") }
}
