import CoreMetrics
import Logging
import Model
import NIOCore
import NIOHTTP1
import Packaging
import Store
import Synchronization

/// `GET /v1/orders/{type}/{id}`: the newest package.
///
/// Source: Wallet Orders §1.2a
final class PackageEndpoint: Sendable {
    /// How a request waits for a package that is on its way. Source: DESIGN §5
    struct Hold: Sendable {
        /// Most requests that wait at once.
        var requests = 1000
        /// How long one waits at most.
        var time = TimeAmount.seconds(5)
        /// How often it looks.
        var step = TimeAmount.milliseconds(50)
    }

    private let reader: PackageReader
    private let secrets: TokenSecrets
    private let cache: AssetCache
    private let metrics: GatewayMetrics
    private let holding: Hold
    private let held = Atomic<Int>(0)

    init(
        reader: PackageReader, secrets: TokenSecrets, cache: AssetCache, metrics: GatewayMetrics,
        holding: Hold = Hold()
    ) {
        self.holding = holding
        self.reader = reader
        self.secrets = secrets
        self.cache = cache
        self.metrics = metrics
    }

    func answer(_ key: OrderKey, _ fields: Request.Fields, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        guard let token = Authorization.token(fields.authorization) else {
            return eventLoop.makeSucceededFuture(.unauthorized)
        }
        let condition = ConditionalFetch(fields)
        return self.look(key, token: token, condition: condition, on: eventLoop).flatMap { answer in
            if let answer { return eventLoop.makeSucceededFuture(answer) }
            guard self.secrets.isToken(token, of: key) else { return eventLoop.makeSucceededFuture(.unauthorized) }
            return self.reader.isRemoved(key, on: eventLoop).flatMap { isRemoved in
                // What was removed is not on its way (DESIGN §3).
                if isRemoved { return eventLoop.makeSucceededFuture(.unauthorized) }
                return self.hold(key, token: token, condition: condition, on: eventLoop)
            }
        }
    }

    /// - Returns: nil for an unknown order.
    private func look(
        _ key: OrderKey, token: String, condition: ConditionalFetch, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer?> {
        // With a condition the answer is 304 more often than not, so no package bytes are read before it is known.
        guard condition.isConditional else { return self.fetch(key, token: token, on: eventLoop) }
        return self.reader.stamp(of: key, on: eventLoop).flatMap { stamp in
            guard let stamp else { return eventLoop.makeSucceededFuture(nil) }
            guard Authorization.isEqual(token, stamp.token) else {
                return eventLoop.makeSucceededFuture(.unauthorized)
            }
            guard condition.isFresh(stamp) else { return self.fetch(key, token: token, on: eventLoop) }
            return eventLoop.makeSucceededFuture(Answer(.notModified, headers: Self.headers(stamp)))
        }
    }

    private func fetch(
        _ key: OrderKey, token: String, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer?> {
        self.reader.spans(of: key, on: eventLoop).flatMap { spans in
            guard let spans else { return eventLoop.makeSucceededFuture(nil) }
            guard Authorization.isEqual(token, spans.stamp.token) else {
                return eventLoop.makeSucceededFuture(.unauthorized)
            }
            return self.assets(spans.assets, on: eventLoop).map { assets in
                var headers = Self.headers(spans.stamp)
                headers.add(name: "content-type", value: "application/vnd.apple.finance.order")
                return Answer(.ok, headers: headers, body: [spans.head] + assets + [spans.tail])
            }
        }
    }

    private func assets(_ digests: [String], on eventLoop: any EventLoop) -> EventLoopFuture<[ByteBuffer]> {
        let cached = self.cache.entries(digests)
        let missing = zip(digests, cached).filter { $0.1 == nil }.map(\.0)
        guard !missing.isEmpty else { return eventLoop.makeSucceededFuture(cached.compactMap(\.self)) }
        return self.reader.assets(missing, on: eventLoop).map { entries in
            var found: [String: ByteBuffer] = [:]
            for (digest, entry) in zip(missing, entries) {
                self.cache.insert(digest, entry)
                found[digest] = entry
            }
            return zip(digests, cached).compactMap { digest, entry in entry ?? found[digest] }
        }
    }

    private static func headers(_ stamp: PackageReader.Stamp) -> HTTPHeaders {
        [
            "last-modified": HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds),
            "etag": "\"\(stamp.entityTag)\"", "cache-control": "private, no-cache", "vary": "Authorization",
        ]
    }

    /// Waits for an order that must be on its way, since somebody has its derived token.
    ///
    /// The fetch right after a payment can arrive before the change went through Kafka. Source: DESIGN §5
    private func hold(
        _ key: OrderKey, token: String, condition: ConditionalFetch, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let late = Answer.unavailable("the package is on its way", retryAfterSeconds: 1)
        guard self.held.wrappingAdd(1, ordering: .relaxed).newValue <= self.holding.requests else {
            self.held.wrappingSubtract(1, ordering: .relaxed)
            return eventLoop.makeSucceededFuture(late)
        }
        self.metrics.held.increment()
        let deadline = NIODeadline.now() + self.holding.time
        let promise = eventLoop.makePromise(of: Answer.self)
        eventLoop.scheduleRepeatedAsyncTask(initialDelay: self.holding.step, delay: self.holding.step) { task in
            self.look(key, token: token, condition: condition, on: eventLoop).map { answer in
                guard answer != nil || NIODeadline.now() >= deadline else { return }
                task.cancel()
                promise.succeed(answer ?? late)
            }.flatMapErrorThrowing { error in
                task.cancel()
                promise.fail(error)
            }
        }
        promise.futureResult.whenComplete { _ in self.held.wrappingSubtract(1, ordering: .relaxed) }
        return promise.futureResult
    }
}
