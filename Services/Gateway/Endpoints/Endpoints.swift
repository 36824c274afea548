import Brands
import HTTPServer
import Kafka
import Logging
import Model
import NIOCore
import NIOHTTP1
import Operations
import Redis
import Store

/// All endpoints: a request in, an answer out.
///
/// A class so that a request waiting for Redis keeps one reference and not a copy of everything.
final class Endpoints: Responder {
    /// The rules for reading fields that Wallet does not send: the media type that a client of the compatible dialect
    /// accepts, and the trace of a request. Nil if neither is needed.
    let reading: ExtendedReading?
    let basePath: String
    let brands: BrandLibrary
    let package: PackageEndpoint
    let link: LinkEndpoint
    let mail: MailEndpoint
    let registrations: RegistrationEndpoints
    let log: LogEndpoint
    /// Nil unless it is configured.
    let compatibility: CompatibilityEndpoints?
    let metrics: GatewayMetrics
    let logger: Logger
    let limits: GatewayLimits
    /// Called with the span of each fetch of a sampled trace; nil: no span is made.
    let onSpan: (@Sendable (TraceSpan) -> Void)?

    init(
        basePath: String, brands: BrandLibrary, package: PackageEndpoint, link: LinkEndpoint, mail: MailEndpoint,
        registrations: RegistrationEndpoints, log: LogEndpoint, metrics: GatewayMetrics, logger: Logger,
        limits: GatewayLimits = GatewayLimits(), compatibility: CompatibilityEndpoints? = nil,
        onSpan: (@Sendable (TraceSpan) -> Void)? = nil
    ) {
        self.basePath = basePath
        self.brands = brands
        self.package = package
        self.link = link
        self.mail = mail
        self.registrations = registrations
        self.log = log
        self.compatibility = compatibility
        self.reading =
            compatibility == nil && onSpan == nil
            ? nil
            : ExtendedReading(
                bodyLimit: { _ in RequestLimits.body }, bodies: RequestLimits.bodies, arrivalLimit: RequestLimits.idle)
        self.metrics = metrics
        self.logger = logger
        self.limits = limits
        self.onSpan = onSpan
    }

    /// Answers a request; never fails.
    ///
    /// - Parameter eventLoop: that of the connection; Redis is queried on it without a thread change.
    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        let started = NIODeadline.now()
        let route: Route
        do {
            route = try Route(
                method: request.method, target: request.target, basePath: self.basePath,
                isCompatible: self.compatibility != nil)
        } catch {
            let answer = Self.answer(error)
            self.count(.none, answer, since: started)
            return eventLoop.makeSucceededFuture(answer)
        }
        let (endpoint, client) = (route.endpoint, request.client)
        let promise = eventLoop.makePromise(of: Answer.self)
        if let onSpan = self.onSpan, endpoint == .package, let trace = request.fields.trace {
            let start = TraceSpan.now
            promise.futureResult.whenSuccess { answer in
                if let span = answer.span(of: trace, from: start, to: TraceSpan.now) { onSpan(span) }
            }
        }
        let complete: PackageEndpoint.Completion = { result in
            let answer: Answer
            switch result {
            case .success(let made):
                answer = self.slowedDown(made, endpoint, client)
                guard !made.isGuess else {
                    let due = Self.refusalMoment(since: started, now: .now())
                    eventLoop.scheduleTask(deadline: due) {
                        self.count(endpoint, answer, since: started)
                        promise.succeed(answer)
                    }
                    return
                }
            case .failure(let error): answer = self.unavailable(error, endpoint, eventLoop)
            }
            self.count(endpoint, answer, since: started)
            promise.succeed(answer)
        }
        self.act(on: route, request, eventLoop, complete)
        return promise.futureResult
    }

    private func act(
        on route: Route, _ request: Request, _ eventLoop: any EventLoop,
        _ complete: @escaping PackageEndpoint.Completion
    ) {
        if let type = route.orderType, !self.brands.serves(type) {
            return complete(.success(.failure(.notFound, "unknown order type \(type)")))
        }
        switch route {
        case .package(let key):
            self.package.answer(key, request, isSuspect: self.limits.isSuspect(request.client), on: eventLoop, complete)
        case .link(let key, let expires, let signature):
            self.link.answer(key, expires: expires, signature: signature, for: request, on: eventLoop)
                .whenComplete(complete)
        case .mail(let key, let purpose, let expires, let signature):
            self.mail.answer(key, purpose, expires: expires, signature: signature, for: request, on: eventLoop)
                .whenComplete(complete)
        case .register(let key):
            self.registrations.register(key, request.fields, body: request.body, on: eventLoop).whenComplete(complete)
        case .unregister(let key):
            self.registrations.unregister(key, request.fields, on: eventLoop).whenComplete(complete)
        case .changes(let device, let type, let tag):
            let isBrief = self.limits.isListingNothing(request.client)
            self.registrations.changes(of: device, type: type, since: tag, isBrief: isBrief, on: eventLoop)
                .whenComplete(complete)
        case .log: complete(.success(self.log.answer(request.body) { self.limits.admit($0, from: request.client) }))
        case .order(let key):
            self.compatibility?.order(
                key, request, isSuspect: self.limits.isSuspect(request.client), on: eventLoop, complete)
        case .push: self.compatibility?.push(request, on: eventLoop).whenComplete(complete)
        }
    }

    private static func answer(_ failure: Route.Failure) -> Answer {
        switch failure {
        case .notFound: .failure(.notFound, "there is no such path")
        case .methodNotAllowed(let allow):
            .failure(.methodNotAllowed, "allowed methods: \(allow)", headers: ["allow": allow])
        case .badTarget(let message): .failure(.badRequest, message)
        }
    }

    /// Slows down clients that repeatedly send wrong tokens, or that poll repeatedly without any change. No other
    /// answer is affected: a correct token is answered whatever came from its address before.
    private func slowedDown(
        _ answer: Answer, _ endpoint: GatewayMetrics.Endpoint, _ client: ClientAddress
    ) -> Answer {
        let (seconds, reason): (Int64?, String) =
            if answer.isGuess {
                (self.limits.guessed(client), "too many wrong tokens came from this address")
            } else if endpoint == .changes, answer.status == .noContent {
                (self.limits.listedNothing(client), "too many lists without a change went to this address")
            } else { (nil, "") }
        guard let seconds else { return answer }
        return .tooManyRequests(reason, retryAfterSeconds: seconds)
    }

    /// The time steps at which wrong tokens are refused: longer than a lookup of an order takes.
    static let refusalStep = TimeAmount.milliseconds(10)

    /// Returns the time at which a wrong token is refused: whole steps after the request, so that the duration of the
    /// lookup does not reveal whether the order exists.
    static func refusalMoment(since started: NIODeadline, now: NIODeadline) -> NIODeadline {
        let step = Self.refusalStep.nanoseconds
        return started + .nanoseconds(((now - started).nanoseconds / step + 1) * step)
    }

    /// Logs the failed upstream without disclosing it: the client gets the time of its next attempt.
    private func unavailable(
        _ error: any Error, _ endpoint: GatewayMetrics.Endpoint, _ eventLoop: any EventLoop
    ) -> Answer {
        let endpoint = endpoint.label
        switch self.limits.failed(endpoint, "\(error)") {
        case .write: self.logger.warning("request failed", metadata: ["endpoint": "\(endpoint)", "error": "\(error)"])
        case .summarise(let moment):
            eventLoop.scheduleTask(deadline: moment) {
                guard let summary = self.limits.summary(of: endpoint) else { return }
                self.logger.warning(
                    "more requests failed",
                    metadata: [
                        "endpoint": "\(endpoint)", "count": "\(summary.count)", "error": "\(summary.reason)",
                    ])
            }
        case .count: break
        }
        let isUpstream = error is RedisError || error is StoreError || error is KafkaError
        return isUpstream
            ? .unavailable("the service is not available right now", retryAfterSeconds: 5)
            : .failure(.internalServerError, "internal error")
    }

    /// Makes the answer to input that is no complete request: a body that is too large, malformed HTTP.
    func refusal(_ fault: RequestFault, of request: Request?, on eventLoop: any EventLoop) -> Answer {
        var answer = Answer.failure(fault.status, fault.message)
        if let seconds = fault.retryAfterSeconds { answer.headers.add(name: "retry-after", value: String(seconds)) }
        let route = request.flatMap { request in
            try? Route(
                method: request.method, target: request.target, basePath: self.basePath,
                isCompatible: self.compatibility != nil)
        }
        self.count(route?.endpoint ?? .none, answer, since: .now())
        return answer
    }

    private func count(_ endpoint: GatewayMetrics.Endpoint, _ answer: Answer, since started: NIODeadline) {
        self.metrics.answered(
            endpoint, status: Int(answer.status.code), nanoseconds: (NIODeadline.now() - started).nanoseconds)
    }
}

extension Answer {
    /// Returns the span of a fetch; nil unless its token was found right, so that no other client can make any.
    func span(of trace: TraceContext, from start: Int64, to end: Int64) -> TraceSpan? {
        let isFailure = self.status.code >= 500
        guard self.isForOwner || self.status.code < 400 else { return nil }
        return TraceSpan(
            "waybill.fetch", .server, of: [trace], from: start, to: end,
            attributes: [("waybill.outcome", .string("\(self.status.code)"))], isError: isFailure)
    }
}

extension Route {
    /// The order type of the request; nil if it has none.
    var orderType: OrderTypeIdentifier? {
        switch self {
        case .package(let key), .link(let key, _, _), .mail(let key, _, _, _), .order(let key): key.orderType
        case .register(let key), .unregister(let key): key.order.orderType
        case .changes(_, let type, _): type
        case .log, .push: nil
        }
    }
}

/// The operation that a request asks for, from its method and target alone.
///
/// Source: Wallet Orders §1.2, §6
enum Route: Hashable {
    /// `GET /v1/orders/{type}/{id}`
    case package(OrderKey)
    /// `GET /v1/orders/{type}/{id}/package?expires={UNIX seconds}&signature={signature}`; empty for missing parameters.
    case link(OrderKey, expires: String, signature: String)
    /// `GET` and `POST /v1/orders/{type}/{id}/mail` with the same parameters.
    case mail(OrderKey, MailEndpoint.Purpose, expires: String, signature: String)
    /// `POST /v1/devices/{device}/registrations/{type}/{id}`
    case register(RegistrationKey)
    /// `DELETE` of the same path
    case unregister(RegistrationKey)
    /// `GET /v1/devices/{device}/registrations/{type}?ordersModifiedSince={tag}`
    case changes(DeviceIdentifier, OrderTypeIdentifier, tag: String)
    /// `POST /v1/log`
    case log
    /// `GET /v1/packages/{type}/{id}`, of the compatible dialect
    case order(OrderKey)
    /// `POST /v1/push`, of the compatible dialect
    case push

    /// The reason why there is no route.
    enum Failure: Error, Hashable {
        case notFound
        /// With the methods that are allowed on the path.
        case methodNotAllowed(allow: String)
        /// With the error in the target.
        case badTarget(String)
    }

    /// - Parameters:
    ///   - target: of printable ASCII, in origin or absolute form.
    ///   - basePath: the part before `/v1`, without a slash at its end. It may also be missing, for a proxy that strips
    ///     it; and one extra slash is ignored, which clients produce when they join URLs.
    ///   - isCompatible: whether the routes of the compatible dialect exist.
    init(
        method: Request.Method, target: String, basePath: String, isCompatible: Bool = false
    ) throws(Failure) {
        let target = RequestTarget(target)
        let found: [String]?
        do { found = try target.segments(behind: basePath) } catch { throw .badTarget(error.message) }
        guard let segments = found else { throw .notFound }
        switch segments.count {
        case 1 where segments[0] == "log":
            try Self.require(method == .post, "POST")
            self = .log
        case 3 where segments[0] == "orders":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .package(try Self.key(segments[1], segments[2]))
        case 4 where segments[0] == "orders" && segments[3] == "package":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            let key = try Self.key(segments[1], segments[2])
            self = .link(
                key, expires: target.parameter("expires") ?? "", signature: target.parameter("signature") ?? "")
        case 4 where segments[0] == "orders" && segments[3] == "mail":
            try Self.require(method == .get || method == .head || method == .post, "GET, HEAD, POST")
            let press: MailEndpoint.Purpose = target.parameter("open") == "wallet" ? .wallet : .order
            self = .mail(
                try Self.key(segments[1], segments[2]), method == .post ? press : .page,
                expires: target.parameter("expires") ?? "", signature: target.parameter("signature") ?? "")
        case 4 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let type = try Self.identifier { () throws(IdentifierError) in try OrderTypeIdentifier(segments[3]) }
            // A tag that cannot be decoded is not one of ours: everything is then reported.
            self = .changes(device, type, tag: target.parameter("ordersModifiedSince") ?? "")
        case 5 where segments[0] == "devices" && segments[2] == "registrations":
            try Self.require(method == .post || method == .delete, "POST, DELETE")
            let device = try Self.identifier { () throws(IdentifierError) in try DeviceIdentifier(segments[1]) }
            let key = RegistrationKey(device: device, order: try Self.key(segments[3], segments[4]))
            self = method == .post ? .register(key) : .unregister(key)
        case 1 where isCompatible && segments[0] == "push":
            try Self.require(method == .post, "POST")
            self = .push
        case 3 where isCompatible && segments[0] == "packages":
            try Self.require(method == .get || method == .head, "GET, HEAD")
            self = .order(try Self.key(segments[1], segments[2]))
        default: throw .notFound
        }
    }

    private static func require(_ isAllowed: Bool, _ allow: String) throws(Failure) {
        guard isAllowed else { throw .methodNotAllowed(allow: allow) }
    }

    private static func identifier<T>(_ make: () throws(IdentifierError) -> T) throws(Failure) -> T {
        do { return try make() } catch { throw .badTarget(error.description) }
    }

    private static func key(_ type: String, _ order: String) throws(Failure) -> OrderKey {
        try Self.identifier { () throws(IdentifierError) in
            OrderKey(orderType: try OrderTypeIdentifier(type), order: try OrderIdentifier(order))
        }
    }
}
