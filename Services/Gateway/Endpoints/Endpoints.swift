import Brands
import Kafka
import Logging
import Model
import NIOCore
import NIOHTTP1
import Redis
import Store

/// All endpoints: a request in, an answer out.
///
/// A class so that a request waiting for Redis keeps one reference and not a copy of everything.
final class Endpoints: Responder {
    let reading: ExtendedReading?
    let basePath: String
    let brands: BrandLibrary
    let package: PackageEndpoint
    let link: LinkEndpoint
    let registrations: RegistrationEndpoints
    let log: LogEndpoint
    /// Nil unless it is configured.
    let compatibility: CompatibilityEndpoints?
    let metrics: GatewayMetrics
    let logger: Logger
    let limits: GatewayLimits

    init(
        basePath: String, brands: BrandLibrary, package: PackageEndpoint, link: LinkEndpoint,
        registrations: RegistrationEndpoints, log: LogEndpoint, metrics: GatewayMetrics, logger: Logger,
        limits: GatewayLimits = GatewayLimits(), compatibility: CompatibilityEndpoints? = nil
    ) {
        self.basePath = basePath
        self.brands = brands
        self.package = package
        self.link = link
        self.registrations = registrations
        self.log = log
        self.compatibility = compatibility
        self.reading = compatibility.map { _ in CompatibilityEndpoints.reading }
        self.metrics = metrics
        self.logger = logger
        self.limits = limits
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
        let promise = eventLoop.makePromise(of: Answer.self)
        let complete: PackageEndpoint.Completion = { result in
            let answer: Answer
            switch result {
            case .success(let made):
                answer = self.slowedDown(made, request)
                guard made.offense != .guess else {
                    let due = Self.refusalMoment(since: started, now: .now())
                    eventLoop.scheduleTask(deadline: due) {
                        self.count(route.endpoint, answer, since: started)
                        promise.succeed(answer)
                    }
                    return
                }
            case .failure(let error): answer = self.unavailable(error, route, eventLoop)
            }
            self.count(route.endpoint, answer, since: started)
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
    private func slowedDown(_ answer: Answer, _ request: Request) -> Answer {
        let (seconds, reason): (Int64?, String) =
            switch answer.offense {
            case nil: (nil, "")
            case .guess: (self.limits.guessed(request.client), "too many wrong tokens came from this address")
            case .emptyList:
                (self.limits.listedNothing(request.client), "too many lists without a change went to this address")
            }
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
    private func unavailable(_ error: any Error, _ route: Route, _ eventLoop: any EventLoop) -> Answer {
        let endpoint = route.endpoint.rawValue
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

    /// Makes the answer to input that is not a routable request: a body that is too large, malformed HTTP.
    func refusal(_ status: HTTPResponseStatus, _ message: String) -> Answer {
        let answer = Answer.failure(status, message)
        self.count(.none, answer, since: .now())
        return answer
    }

    private func count(_ endpoint: GatewayMetrics.Endpoint, _ answer: Answer, since started: NIODeadline) {
        self.metrics.answered(
            endpoint, status: Int(answer.status.code), nanoseconds: (NIODeadline.now() - started).nanoseconds)
    }
}

extension Route {
    /// The order type of the request; nil if it has none.
    var orderType: OrderTypeIdentifier? {
        switch self {
        case .package(let key), .link(let key, _, _), .order(let key): key.orderType
        case .register(let key), .unregister(let key): key.order.orderType
        case .changes(_, let type, _): type
        case .log, .push: nil
        }
    }
}
