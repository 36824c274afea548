import Kafka
import Logging
import Model
import NIOCore
import NIOHTTP1
import Packaging
import Redis
import Store

/// All endpoints: a request in, an answer out.
///
/// A class so that what waits for Redis keeps one reference and not a copy of everything.
final class Endpoints: Sendable {
    let basePath: String
    let brands: BrandLibrary
    let package: PackageEndpoint
    let link: LinkEndpoint
    let registrations: RegistrationEndpoints
    let log: LogEndpoint
    let metrics: GatewayMetrics
    let logger: Logger
    let limits: GatewayLimits

    init(
        basePath: String, brands: BrandLibrary, package: PackageEndpoint, link: LinkEndpoint,
        registrations: RegistrationEndpoints, log: LogEndpoint, metrics: GatewayMetrics, logger: Logger,
        limits: GatewayLimits = GatewayLimits()
    ) {
        self.basePath = basePath
        self.brands = brands
        self.package = package
        self.link = link
        self.registrations = registrations
        self.log = log
        self.metrics = metrics
        self.logger = logger
        self.limits = limits
    }

    /// Answers a request; never fails.
    ///
    /// - Parameter eventLoop: of the connection; Redis is asked on it without a change of thread.
    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        let started = NIODeadline.now()
        let route: Route
        do {
            route = try Route(method: request.method, target: request.target, basePath: self.basePath)
        } catch {
            let answer = Self.answer(error)
            self.count(.none, answer, since: started)
            return eventLoop.makeSucceededFuture(answer)
        }
        let promise = eventLoop.makePromise(of: Answer.self)
        let complete: PackageEndpoint.Completion = { result in
            let answer: Answer
            switch result {
            case .success(let made): answer = self.slowedDown(made, request)
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
            return complete(.success(.failure(.notFound, "order type \(type) is not served here")))
        }
        switch route {
        case .package(let key):
            self.package.answer(key, request.fields, for: request.presence, on: eventLoop, complete)
        case .link(let key, let expires, let signature):
            self.link.answer(key, expires: expires, signature: signature, for: request.presence, on: eventLoop)
                .whenComplete(complete)
        case .register(let key):
            self.registrations.register(key, request.fields, body: request.body, on: eventLoop).whenComplete(complete)
        case .unregister(let key):
            self.registrations.unregister(key, request.fields, on: eventLoop).whenComplete(complete)
        case .changes(let device, let type, let tag):
            self.registrations.changes(of: device, type: type, since: tag, on: eventLoop).whenComplete(complete)
        case .log: complete(.success(self.log.answer(request.body) { self.limits.admit($0, from: request.client) }))
        }
    }

    private static func answer(_ failure: Route.Failure) -> Answer {
        switch failure {
        case .notFound: .failure(.notFound, "there is nothing here")
        case .methodNotAllowed(let allow):
            .failure(.methodNotAllowed, "this path takes \(allow)", headers: ["allow": allow])
        case .badTarget(let message): .failure(.badRequest, message)
        }
    }

    /// Who shows wrong tokens again and again is told to wait. What was not refused is never touched: a right token is
    /// answered whatever came from its address before. Who shows no token guesses nothing: the answer is the challenge.
    ///
    /// Source: RFC 9110 §15.5.2
    private func slowedDown(_ answer: Answer, _ request: Request) -> Answer {
        let isGuess =
            answer.status == .forbidden
            || answer.status == .unauthorized && Authorization.token(request.fields.authorization) != nil
        guard isGuess, let seconds = self.limits.refused(request.client) else { return answer }
        return .failure(
            .tooManyRequests, "too many wrong tokens came from this address",
            headers: ["retry-after": String(seconds)])
    }

    /// What failed behind us is for us to know: the client learns when to come again.
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
            : .failure(.internalServerError, "something went wrong here")
    }

    /// The answer to what is no request that could be routed: a body that is too large, malformed HTTP.
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
    /// The order type that the request is about; nil for one that is about none.
    var orderType: OrderTypeIdentifier? {
        switch self {
        case .package(let key), .link(let key, _, _): key.orderType
        case .register(let key), .unregister(let key): key.order.orderType
        case .changes(_, let type, _): type
        case .log: nil
        }
    }
}
