import Adoption
import CoreMetrics
import FoundationEssentials
import HTTPServer
import Logging
import Model
import NIOCore
import NIOHTTP1
import Store
import Synchronization
import Tokens

/// `GET /v1/orders/{type}/{id}`: the newest package.
///
/// Source: Wallet Orders §1.2a
final class PackageEndpoint: Sendable {
    /// The limits on requests that wait for a package being made. Source: Design §5
    struct Hold: Sendable {
        /// The limits on the number of requests that wait.
        var limits = HoldTable<ClientAddress>.Limits()
        /// The longest wait of a request.
        var time = TimeAmount.seconds(5)
        /// The time until the first check; it doubles after each check, up to four times as long.
        var step = TimeAmount.milliseconds(50)
        /// The same for a package that was asked for, half as long again after each check, up to eight times as long: a
        /// packager makes it in milliseconds.
        var requestStep = TimeAmount.milliseconds(2)
        /// The time after which it is asked for again: its packager may have ended.
        var requestAgain = TimeAmount.seconds(1)
    }

    private let reader: PackageReader
    private let views: StaleReadGuard
    private let tokens: TokenAuthority
    private let cache: AssetCache
    private let metrics: GatewayMetrics
    /// Nil if adoption is not counted.
    private let adoption: AdoptionTally?
    private let holding: Hold
    private let held: Mutex<HoldTable<ClientAddress>>

    init(
        reader: PackageReader, views: StaleReadGuard, tokens: TokenAuthority, cache: AssetCache,
        metrics: GatewayMetrics, adoption: AdoptionTally? = nil,
        holding: Hold = Hold()
    ) {
        self.adoption = adoption
        self.holding = holding
        self.held = Mutex(HoldTable(holding.limits))
        self.reader = reader
        self.views = views
        self.tokens = tokens
        self.cache = cache
        self.metrics = metrics
    }

    /// The parts of one request. A class, since each step's closure keeps it.
    private final class Fetch: Sendable {
        let key: OrderKey
        /// Nil for a client that has proved its right to the package in another way.
        let token: String?
        let condition: ConditionalFetch
        let client: ClientAddress
        /// The presence of the client, which may disconnect while it is held.
        let presence: Presence?
        /// True if no package may be read before the token has been compared.
        let isSuspect: Bool
        /// Reads another representation; nil for the package.
        let other: Representation?
        /// False for a request that gets no package.
        let isGet: Bool

        init(
            _ key: OrderKey, _ token: String?, _ condition: ConditionalFetch, for request: Request,
            isSuspect: Bool = false, other: Representation? = nil
        ) {
            self.key = key
            self.token = token
            self.condition = condition
            self.client = request.client
            self.presence = request.presence
            self.isSuspect = isSuspect
            self.other = other
            self.isGet = request.method == .get
        }
    }

    /// Reads an order, for another answer than its package; nil if the order does not exist.
    typealias Representation = @Sendable (any EventLoop) -> EventLoopFuture<(token: AuthenticationToken, Answer)?>

    private func opens(_ fetch: Fetch, _ stored: AuthenticationToken) -> Bool {
        fetch.token.map { self.tokens.opens($0, fetch.key, stored: stored) } ?? true
    }

    /// Receives the answer, on the event loop.
    typealias Completion = @Sendable (Result<Answer, any Error>) -> Void

    /// The result of a lookup.
    private enum Seen: Sendable {
        case answer(Answer)
        /// The token is not the order's.
        case refused
        /// The order does not exist.
        case unknown
        /// The order has no package yet, which may be asked for.
        case unpackaged
    }
    private typealias Look = @Sendable (Result<Seen, any Error>) -> Void

    /// - Parameters:
    ///   - isSuspect: true if wrong tokens came from the client's address recently.
    ///   - other: answers in place of the package, to whom the package would be given.
    func answer(
        _ key: OrderKey, _ request: Request, isSuspect: Bool, as other: Representation? = nil,
        on eventLoop: any EventLoop, _ completion: @escaping Completion
    ) {
        guard let token = Authorization.token(request.fields.authorization) else {
            return completion(.success(.unauthorized))
        }
        let fetch = Fetch(
            key, token, ConditionalFetch(request.fields), for: request, isSuspect: isSuspect, other: other)
        self.answer(fetch, on: eventLoop, completion)
    }

    /// Answers a client that has proved its right to the package in another way.
    ///
    /// - Parameter other: answers in place of the package.
    func answer(
        granted key: OrderKey, for request: Request, as other: Representation? = nil, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let promise = eventLoop.makePromise(of: Answer.self)
        let fetch = Fetch(key, nil, ConditionalFetch(nil), for: request, other: other)
        self.answer(fetch, on: eventLoop) { promise.completeWith($0) }
        return promise.futureResult
    }

    private func answer(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        if let generation = self.views.generation {
            return self.answer(fetch, under: generation, on: eventLoop, completion)
        }
        self.views.currentGeneration(on: eventLoop).whenComplete { result in
            switch result {
            case .success(let generation?): self.answer(fetch, under: generation, on: eventLoop, completion)
            case .success(nil): completion(.success(.restoring))
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    /// - Parameter generation: if it has changed when the answer is made, the answer may come from a server that fell
    ///   back.
    private func answer(
        _ fetch: Fetch, under generation: UInt64, on eventLoop: any EventLoop, _ completion: @escaping Completion
    ) {
        guard !fetch.isSuspect else { return self.judge(fetch, under: generation, on: eventLoop, completion) }
        self.look(fetch, on: eventLoop) { result in
            switch result {
            case .success(.answer(let answer)):
                completion(.success(self.views.holds(generation) ? answer : .restoring))
            case .success(.refused), .success(.unknown):
                self.judge(fetch, under: generation, on: eventLoop, completion)
            case .success(.unpackaged):
                self.hold(fetch, .unpackaged, on: eventLoop) { result in
                    completion(result.map { self.views.holds(generation) ? $0 : .restoring })
                }
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    // Completions instead of chained futures: each link of a chain costs a fetch three allocations.

    private func look(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Look) {
        // With a condition the answer is usually 304, so no package bytes are read before that is known. Another
        // representation is made of the whole document, for which the token must be right first.
        guard fetch.condition.isConditional || fetch.other != nil else {
            return self.read(fetch, on: eventLoop, completion)
        }
        self.reader.stamp(of: fetch.key, on: eventLoop) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(nil): completion(.success(.unknown))
            case .success(let stamp?):
                guard self.opens(fetch, stamp.token) else { return completion(.success(.refused)) }
                self.answer(fetch, stamp, on: eventLoop, completion)
            }
        }
    }

    /// Answers a client that may have the order.
    private func answer(
        _ fetch: Fetch, _ stamp: PackageReader.Stamp, on eventLoop: any EventLoop, _ completion: @escaping Look
    ) {
        guard !fetch.condition.isFresh(stamp) else {
            return completion(.success(.answer(Answer(.notModified, headers: Self.headers(stamp)))))
        }
        self.read(fetch, on: eventLoop, completion)
    }

    private func read(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Look) {
        if let other = fetch.other {
            return other(eventLoop).whenComplete { result in
                // The token was compared before; the packager makes the package, and with it the document.
                if case .failure(let error as StoreError) = result, error.code == .cold {
                    return completion(.success(.unpackaged))
                }
                completion(
                    result.map { found in
                        guard let (token, answer) = found else { return .unknown }
                        return self.opens(fetch, token) ? .answer(answer) : .refused
                    })
            }
        }
        self.reader.spans(of: fetch.key, on: eventLoop) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(nil): completion(.success(.unknown))
            case .success(let spans?):
                guard self.opens(fetch, spans.stamp.token) else { return completion(.success(.refused)) }
                guard spans.stamp.isPackaged else { return completion(.success(.unpackaged)) }
                if let shared = self.cache.entries(list: spans.sharedList) {
                    return completion(.success(.answer(self.package(fetch, spans, shared, on: eventLoop))))
                }
                self.shared(of: spans, fetch.key, on: eventLoop).whenComplete { result in
                    completion(
                        result.map { shared in
                            shared.map { .answer(self.package(fetch, spans, $0, on: eventLoop)) } ?? .unpackaged
                        })
                }
            }
        }
    }

    /// - Parameter shared: assets, then certificates.
    private func package(
        _ fetch: Fetch, _ spans: PackageReader.Spans, _ shared: [ByteBuffer], on eventLoop: any EventLoop
    ) -> Answer {
        if let adoption, fetch.isGet { self.count(fetch, spans, adoption, on: eventLoop) }
        var body = shared
        body.reserveCapacity(shared.count + 2)
        body.insert(spans.head, at: shared.count - 1)
        body.append(spans.tail)
        var headers = Self.headers(spans.stamp)
        headers.add(name: "content-type", value: "application/vnd.apple.finance.order")
        return Answer(.ok, headers: headers, body: body)
    }

    /// Counts a package that is sent: as an update if the client has an older version, as the first fetch of the order
    /// if the client names none and nobody fetched it before.
    private func count(
        _ fetch: Fetch, _ spans: PackageReader.Spans, _ adoption: AdoptionTally, on eventLoop: any EventLoop
    ) {
        let type = fetch.key.orderType
        let modified = spans.stamp.modifiedEpochSeconds
        if fetch.condition.isConditional {
            guard let had = fetch.condition.modifiedEpochSeconds, had < modified else { return }
            adoption.countUpdate(of: type, age: Int64(Date().timeIntervalSince1970) - modified)
        } else if spans.isUnfetched {
            let key = fetch.key
            eventLoop.makeFutureWithTask { try await self.reader.markFetched(key) }.whenSuccess { isFirst in
                if isFirst { adoption.count(.fetched, of: type) }
            }
        }
    }

    /// - Returns: nil if another version was written, without a document of this one.
    private func shared(
        of spans: PackageReader.Spans, _ key: OrderKey, on eventLoop: any EventLoop
    ) -> EventLoopFuture<[ByteBuffer]?> {
        let digests = spans.shared
        let own = digests.filter(OwnDocument.isReference)
        let others = own.isEmpty ? digests : digests.filter { !OwnDocument.isReference($0) }
        let entries = self.cache.entries(others, on: eventLoop) { self.reader.assets($0, of: key, on: eventLoop) }
        guard !own.isEmpty else {
            return entries.map { entries in
                self.cache.keep(list: spans.sharedList, digests, entries)
                return entries
            }
        }
        // They belong to one order, and are not kept.
        return entries.and(self.reader.assets(own, of: key, on: eventLoop)).flatMapThrowing { entries, documents in
            var found = Dictionary(zip(others, entries)) { first, _ in first }
            for (reference, document) in zip(own, documents) {
                switch document {
                case .success(let document): found[reference] = document
                case .failure(let error) where error.code != .corrupt: throw error
                case .failure: return nil
                }
            }
            let body = digests.compactMap { found[$0] }
            return body.count == digests.count ? body : nil
        }
    }

    private static func headers(_ stamp: PackageReader.Stamp) -> HTTPHeaders {
        var headers: HTTPHeaders = [
            "last-modified": HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds),
            "cache-control": "private, no-cache", "vary": "Authorization",
        ]
        // A 304 replaces the client's validators: without one of ours, it keeps its own. Source: RFC 9111 §4.3.4
        if stamp.isPackaged { headers.add(name: "etag", value: "\"\(stamp.entityTag)\"") }
        return headers
    }

    /// Decides about a client that apparently cannot be given the order, or that must first prove its right to it.
    ///
    /// While Redis is not known to have everything, a missing order may exist, and a wrong token may be the right one
    /// of a newer version: no client is refused then. Source: Design §4
    private func judge(
        _ fetch: Fetch, under generation: UInt64, on eventLoop: any EventLoop, _ completion: @escaping Completion
    ) {
        self.reader.lookup(of: fetch.key, on: eventLoop).whenComplete { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let standing):
                self.decide(fetch, standing, on: eventLoop) { result in
                    completion(result.map { self.views.holds(generation) ? $0 : .restoring })
                }
            }
        }
    }

    private func decide(
        _ fetch: Fetch, _ standing: PackageReader.LookupResult, on eventLoop: any EventLoop,
        _ completion: @escaping Completion
    ) {
        if let stamp = standing.stamp, self.opens(fetch, stamp.token) {
            self.answer(fetch, stamp, on: eventLoop) { result in
                switch result {
                case .failure(let error): completion(.failure(error))
                case .success(.answer(let answer)): completion(.success(answer))
                // The order was removed or got another token in the meantime.
                case .success(.refused), .success(.unknown): completion(.success(Self.late))
                case .success(.unpackaged): self.hold(fetch, .unpackaged, on: eventLoop, completion)
                }
            }
        } else if !standing.isComplete {
            completion(.success(.restoring))
        } else if standing.isRemoved {
            // An order that was removed is not being made (Design §3).
            let isRight = standing.removedToken.map { self.opens(fetch, $0) } ?? false
            completion(.success(Self.gone(fetch, isRight: isRight)))
        } else if standing.stamp != nil {
            completion(.success(.wrongToken))
        } else {
            self.await(fetch, on: eventLoop, completion)
        }
    }

    /// Makes the answer for an order that was removed.
    private static func gone(_ fetch: Fetch, isRight: Bool) -> Answer {
        guard fetch.token != nil else { return .failure(.notFound, "this order no longer exists") }
        return isRight ? .unauthorized : .wrongToken
    }

    /// The answer to a client with a right token.
    private static let late: Answer = {
        var answer = Answer.unavailable("the package is on its way", retryAfterSeconds: 1)
        answer.isForOwner = true
        return answer
    }()

    /// Waits for an order that is probably being made, since the client has its derived token.
    ///
    /// The fetch right after a payment can arrive before the change went through Kafka. Source: Design §5
    private func await(_ fetch: Fetch, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        if let token = fetch.token, !self.tokens.isToken(token, of: fetch.key) {
            return completion(.success(.wrongToken))
        }
        self.reader.isGone(fetch.key, on: eventLoop).whenComplete { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(true): completion(.success(Self.gone(fetch, isRight: true)))
            case .success(false): self.hold(fetch, .unknown, on: eventLoop, completion)
            }
        }
    }

    /// Holds a request until its order is there and has a package.
    ///
    /// - Parameter seen: the reason, `.unknown` or `.unpackaged`.
    private func hold(_ fetch: Fetch, _ seen: Seen, on eventLoop: any EventLoop, _ completion: @escaping Completion) {
        guard self.held.withLock({ $0.enter(fetch.key, fetch.client) }) else { return completion(.success(Self.late)) }
        self.metrics.held.increment()
        var wait = Wait(deadline: NIODeadline.now() + self.holding.time, delay: self.holding.step)
        if case .unpackaged = seen { wait = self.next(fetch, wait, seen, on: eventLoop) }
        self.wait(fetch, wait, on: eventLoop) { result in
            self.held.withLock { $0.leave(fetch.key, fetch.client) }
            completion(result)
        }
    }

    /// The times of a request that is held.
    private struct Wait {
        let deadline: NIODeadline
        /// The time until the next check.
        var delay: TimeAmount
        /// The last time when the package was asked for; nil for never.
        var requested: NIODeadline?
    }

    /// Returns the wait until the next check, and asks for a package that is missing.
    private func next(_ fetch: Fetch, _ wait: Wait, _ seen: Seen, on eventLoop: any EventLoop) -> Wait {
        var next = wait
        guard case .unpackaged = seen else {
            next.delay = min(wait.delay * 2, self.holding.step * 4)
            return next
        }
        let now = NIODeadline.now()
        if wait.requested.map({ now - $0 < self.holding.requestAgain }) ?? false {
            next.delay = min(wait.delay + .nanoseconds(wait.delay.nanoseconds / 2), self.holding.requestStep * 8)
        } else {
            if wait.requested == nil { self.metrics.unpackaged.increment() }
            next.delay = self.holding.requestStep
            next.requested = now
            // If it fails, so does the next check, or the package is asked for again.
            let others = self.held.withLock { $0.waiting(for: fetch.key.orderType) } - 1
            _ = self.reader.request(fetch.key, behind: others, on: eventLoop)
        }
        return next
    }

    private func wait(
        _ fetch: Fetch, _ wait: Wait, on eventLoop: any EventLoop, _ completion: @escaping Completion
    ) {
        eventLoop.scheduleTask(in: max(wait.delay, self.held.withLock(\.pause))) {
            self.look(fetch, on: eventLoop) { result in
                switch result {
                case .success(.answer(let found)): completion(.success(found))
                case .success(.refused): completion(.success(.wrongToken))
                case .success(let seen):
                    // A client that closed its half of the connection gets an answer as well, if it still reads.
                    let isOver = NIODeadline.now() >= wait.deadline || fetch.presence?.isGone == true
                    guard !isOver else { return completion(.success(Self.late)) }
                    self.wait(fetch, self.next(fetch, wait, seen, on: eventLoop), on: eventLoop, completion)
                case .failure(let error): completion(.failure(error))
                }
            }
        }
    }
}

/// Decides if the client already has the newest package.
///
/// Source: RFC 9110 §13.2.2: `If-None-Match` takes precedence over `If-Modified-Since`; Wallet Orders §1.2a. A version
/// without a package has no tag to compare, so its date decides.
struct ConditionalFetch: Hashable {
    private let fields: Request.Fields?

    /// - Parameter fields: those of the request; nil for no condition.
    init(_ fields: Request.Fields?) { self.fields = fields }

    /// True if there is a condition at all.
    var isConditional: Bool { self.fields.map { !$0.ifNoneMatch.isEmpty || $0.ifModifiedSince != nil } ?? false }

    /// The second of the version that the client has; nil if it names none.
    var modifiedEpochSeconds: Int64? { self.fields?.ifModifiedSince.flatMap { HTTPDate.parse($0) } }

    func isFresh(_ stamp: PackageReader.Stamp) -> Bool {
        guard let fields else { return false }
        if !fields.ifNoneMatch.isEmpty {
            if fields.knows(entityTag: stamp.entityTag) { return true }
            if stamp.isPackaged { return false }
        }
        guard let given = fields.ifModifiedSince else { return false }
        if given == HTTPDate.format(epochSeconds: stamp.modifiedEpochSeconds) { return true }
        return HTTPDate.parse(given).map { $0 >= stamp.modifiedEpochSeconds } ?? false
    }
}
