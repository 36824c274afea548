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
    private let views: ViewGuard
    private let secrets: TokenSecrets
    private let cache: AssetCache
    private let metrics: GatewayMetrics
    private let holding: Hold
    private let held = Atomic<Int>(0)

    init(
        reader: PackageReader, views: ViewGuard, secrets: TokenSecrets, cache: AssetCache, metrics: GatewayMetrics,
        holding: Hold = Hold()
    ) {
        self.holding = holding
        self.reader = reader
        self.views = views
        self.secrets = secrets
        self.cache = cache
        self.metrics = metrics
    }

    /// What one request asks for.
    private struct Fetch: Sendable {
        let key: OrderKey
        /// Nil for somebody who has proved otherwise that the package may be given to them.
        let token: String?
        let condition: ConditionalFetch
        /// Of the client, which may go away while it is held.
        let presence: Presence?

        func opens(_ stamp: PackageReader.Stamp) -> Bool {
            self.token.map { Authorization.isEqual($0, stamp.token) } ?? true
        }
    }

    /// Takes the answer, on the event loop.
    typealias Completion = @Sendable (Result<Answer, any Error>) -> Void

    /// What looking gave.
    private enum Seen: Sendable {
        case answer(Answer)
        /// The token is not the order's.
        case refused
        /// There is no such order.
        case unknown
    }
    private typealias Look = @Sendable (Result<Seen, any Error>) -> Void

    /// - Parameter presence: of the client, which may go away while it is held.
    func answer(
        _ key: OrderKey, _ fields: Request.Fields, for presence: Presence?, on eventLoop: any EventLoop,
        _ completion: @escaping Completion
    ) {
        guard let token = Authorization.token(fields.authorization) else { return completion(.success(.unauthorized)) }
        self.answer(
            Fetch(key: key, token: token, condition: ConditionalFetch(fields), presence: presence), on: eventLoop,
            completion)
    }

    /// Answers somebody who has proved otherwise that the package may be given to them.
    func answer(
        granted key: OrderKey, for presence: Presence?, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let promise = eventLoop.makePromise(of: Answer.self)
        self.answer(
            Fetch(key: key, token: nil, condition: ConditionalFetch(.init()), presence: presence), on: eventLoop
        ) { promise.completeWith($0) }
        return promise.futureResult
    }

    private func answer(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        if let generation = self.views.generation {
            return self.answer(fetch, under: generation, on: eventLoop, completion)
        }
        self.views.settled(on: eventLoop).whenComplete { result in
            switch result {
            case .success(let generation?): self.answer(fetch, under: generation, on: eventLoop, completion)
            case .success(nil): completion(.success(.restoring))
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    /// - Parameter generation: if it has changed when the answer is made, the answer may be of a server that fell back.
    private func answer(
        _ fetch: Fetch, under generation: UInt64, on eventLoop: any EventLoop, _ completion: @escaping Completion
    ) {
        self.look(fetch, on: eventLoop) { result in
            switch result {
            case .success(.answer(let answer)):
                completion(.success(self.views.holds(generation) ? answer : .restoring))
            case .success(.refused), .success(.unknown):
                self.judge(fetch, on: eventLoop) { result in
                    completion(result.map { self.views.holds(generation) ? $0 : .restoring })
                }
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    // Completions instead of chained futures: each link of a chain costs a fetch three allocations.

    private func look(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Look) {
        // With a condition the answer is 304 more often than not, so no package bytes are read before it is known.
        guard fetch.condition.isConditional else { return self.read(fetch, on: eventLoop, completion) }
        self.reader.stamp(of: fetch.key, on: eventLoop) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(nil): completion(.success(.unknown))
            case .success(let stamp?):
                if !fetch.opens(stamp) {
                    completion(.success(.refused))
                } else if fetch.condition.isFresh(stamp) {
                    completion(.success(.answer(Answer(.notModified, headers: Self.headers(stamp)))))
                } else {
                    self.read(fetch, on: eventLoop, completion)
                }
            }
        }
    }

    private func read(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Look) {
        self.reader.spans(of: fetch.key, on: eventLoop) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(nil): completion(.success(.unknown))
            case .success(let spans?):
                guard fetch.opens(spans.stamp) else { return completion(.success(.refused)) }
                if let assets = self.cache.entries(list: spans.assetList) {
                    return completion(.success(.answer(Self.package(spans, assets))))
                }
                self.assets(of: spans, on: eventLoop).whenComplete { result in
                    completion(result.map { .answer(Self.package(spans, $0)) })
                }
            }
        }
    }

    private static func package(_ spans: PackageReader.Spans, _ assets: [ByteBuffer]) -> Answer {
        var body: [ByteBuffer] = []
        body.reserveCapacity(assets.count + 2)
        body.append(spans.head)
        body += assets
        body.append(spans.tail)
        var headers = Self.headers(spans.stamp)
        headers.add(name: "content-type", value: "application/vnd.apple.finance.order")
        return Answer(.ok, headers: headers, body: body)
    }

    private func assets(
        of spans: PackageReader.Spans, on eventLoop: any EventLoop
    ) -> EventLoopFuture<[ByteBuffer]> {
        let digests = spans.assets
        let cached = self.cache.entries(digests)
        let missing = zip(digests, cached).filter { $0.1 == nil }.map(\.0)
        return self.reader.assets(missing, on: eventLoop).map { entries in
            var found: [String: ByteBuffer] = [:]
            for (digest, entry) in zip(missing, entries) {
                self.cache.insert(digest, entry)
                found[digest] = entry
            }
            self.cache.keep(list: spans.assetList, digests)
            return zip(digests, cached).compactMap { digest, entry in entry ?? found[digest] }
        }
    }

    private static func headers(_ stamp: PackageReader.Stamp) -> HTTPHeaders {
        [
            "last-modified": HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds),
            "etag": "\"\(stamp.entityTag)\"", "cache-control": "private, no-cache", "vary": "Authorization",
        ]
    }

    /// Decides what becomes of somebody who cannot be given the order, so far as can be seen.
    ///
    /// While Redis is not known to have everything, an order that is missing may exist, and a token that is wrong may
    /// be the right one of a newer version: nobody is refused then. Source: DESIGN §4
    private func judge(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        self.reader.standing(of: fetch.key, on: eventLoop).whenComplete { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let standing):
                if let stamp = standing.stamp, fetch.opens(stamp) {
                    // It came in between.
                    self.hold(fetch, on: eventLoop, completion)
                } else if !standing.isComplete {
                    completion(.success(.restoring))
                } else if standing.isRemoved {
                    // What was removed is not on its way (DESIGN §3).
                    let gone = Answer.failure(.notFound, "this order is not there any more")
                    completion(.success(fetch.token != nil ? .unauthorized : gone))
                } else if standing.stamp != nil {
                    completion(.success(.unauthorized))
                } else {
                    self.await(fetch, on: eventLoop, completion)
                }
            }
        }
    }

    /// Waits for an order that must be on its way, since somebody has its derived token.
    ///
    /// The fetch right after a payment can arrive before the change went through Kafka. Source: DESIGN §5
    private func await(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        if let token = fetch.token, !self.secrets.isToken(token, of: fetch.key) {
            return completion(.success(.unauthorized))
        }
        self.hold(fetch, on: eventLoop, completion)
    }

    private func hold(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        let late = Answer.unavailable("the package is on its way", retryAfterSeconds: 1)
        guard self.held.wrappingAdd(1, ordering: .relaxed).newValue <= self.holding.requests else {
            self.held.wrappingSubtract(1, ordering: .relaxed)
            return completion(.success(late))
        }
        self.metrics.held.increment()
        let deadline = NIODeadline.now() + self.holding.time
        eventLoop.scheduleRepeatedAsyncTask(initialDelay: self.holding.step, delay: self.holding.step) { task in
            let looked = eventLoop.makePromise(of: Void.self)
            self.look(fetch, on: eventLoop) { result in
                defer { looked.succeed() }
                let answer: Result<Answer, any Error>
                switch result {
                case .success(.answer(let found)): answer = .success(found)
                case .success(.refused): answer = .success(.unauthorized)
                case .success(.unknown):
                    // A client that closed its half of the connection gets an answer as well, if it still listens.
                    let isOver = NIODeadline.now() >= deadline || fetch.presence?.isGone == true
                    guard isOver else { return }
                    answer = .success(late)
                case .failure(let error): answer = .failure(error)
                }
                task.cancel()
                self.held.wrappingSubtract(1, ordering: .relaxed)
                completion(answer)
            }
            return looked.futureResult
        }
    }
}
