public import Model
public import NIOCore
import Redis

/// The reads before a client is refused.
extension PackageReader {
    /// The facts about an order that is about to be refused.
    public struct LookupResult: Sendable, Hashable {
        /// True if the view was complete when the order was looked up, and its type was not awaited. If not, a missing
        /// order may exist, and a present one may be old.
        public let isComplete: Bool
        /// Nil for an order that is unknown or removed.
        public let stamp: Stamp?
        /// True if it was removed, and recently enough for its trace to exist.
        public let isRemoved: Bool
        /// The token that a removed order had.
        public let removedToken: AuthenticationToken?

        public init(
            isComplete: Bool, stamp: Stamp?, isRemoved: Bool = false, removedToken: AuthenticationToken? = nil
        ) {
            self.isComplete = isComplete
            self.stamp = stamp
            self.isRemoved = isRemoved
            self.removedToken = removedToken
        }

        /// - Parameter values: those of the fields of a stamp.
        init(isComplete: Bool, _ values: [RedisValue]) throws {
            let isRemoved = values.count >= 5 && values[4].text == "1"
            self.init(
                isComplete: isComplete, stamp: try PackageReader.stamp(values), isRemoved: isRemoved,
                removedToken: isRemoved ? values[0].text.flatMap { try? AuthenticationToken($0) } : nil)
        }
    }

    /// Looks up an order without a byte of its package, for a request that may be refused.
    ///
    /// Sends two small commands in one pipeline as long as the view is known to be complete, see `ViewMemory`.
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func lookup(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<LookupResult> {
        guard let known = self.memory.known() else { return self.certainLookup(of: key, on: eventLoop) }
        let name = StoreKeys.order(key)
        let (anchors, checks) = self.memory.checks(known, of: [name])
        let order = RedisCommand("HMGET", .string(name), Self.stampFields)
        return self.redis.pipeline([order] + checks, checks: checks.count, on: eventLoop).flatMap { replies in
            do {
                let values = try Self.values(replies)
                switch try self.memory.judge(replies.dropFirst(), of: anchors, against: known) {
                case .complete:
                    let isComplete = !known.awaited.contains(key.orderType)
                    return eventLoop.makeSucceededFuture(try LookupResult(isComplete: isComplete, values))
                case .incomplete: return eventLoop.makeSucceededFuture(try LookupResult(isComplete: false, values))
                case .another: return self.certainLookup(of: key, on: eventLoop)
                }
            } catch {
                return eventLoop.makeFailedFuture(error)
            }
        }
    }

    /// Checks if an order was removed that left no other trace: see `OrderStore.goneSeconds`.
    ///
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func isGone(_ key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<Bool> {
        let command = RedisCommand("EXISTS", .string(StoreKeys.gone(key)))
        return self.redis.pipeline([command], on: eventLoop).flatMapThrowing { replies in
            guard let count = replies.first?.integer else {
                throw StoreError(.unavailable, "looking for a removed order: an unexpected reply")
            }
            return count > 0
        }
    }

    /// Looks up an order, with a check of the servers' histories.
    ///
    /// An order could be missing, and be restored before the view becomes complete: so the epoch is read before and
    /// after it.
    private func certainLookup(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<LookupResult> {
        let (generation, now) = (self.redis.generation, NIODeadline.now())
        let (anchors, epochs) = self.memory.view.epochReads
        let order = RedisCommand("HMGET", .string(StoreKeys.order(key)), Self.stampFields)
        let count = epochs.count
        return self.redis.pipeline(epochs + [order] + epochs, checks: count, on: eventLoop).flatMapThrowing { replies in
            guard replies.count == count * 2 + 1 else {
                throw StoreError(.unavailable, "reading order: a reply is missing")
            }
            let values = try Self.values([replies[count]])
            let before = try MaterializedView.epochs(replies.prefix(count))
            let isComplete = try before != nil && before == MaterializedView.epochs(replies.suffix(count))
            self.memory.remember(isComplete ? before : nil, of: anchors, generation, now)
            let isAwaited = before?.awaited.contains(key.orderType) ?? false
            return try LookupResult(isComplete: isComplete && !isAwaited, values)
        }
    }
}
