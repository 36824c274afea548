import HTTPServer
import Logging
import NIOCore
import NIOHTTP1
import Synchronization

/// All routes of the checkout role: a request in, an answer out.
///
/// Bounded: pages' requests by the calls that they cause (`CallCapacity`, `MerchantSessionClient`), those of servers by
/// `serverLimit`. The others are answered at once.
final class CheckoutResponder: Responder {
    /// Most requests of servers in progress, of which each merchant has a share.
    static let serverLimit = 2000
    /// The time from a request's first byte to its last.
    static let arrivalLimit = TimeAmount.seconds(10)

    let reading: ExtendedReading?
    private let merchants: MerchantLibrary
    private let details: OrderDetailsEndpoints
    private let changes: OrderChangesEndpoint
    private let confirm: ConfirmEndpoint
    private let notify: NotifyEndpoint
    private let webhooks: WebhookEndpoint
    private let baskets: BasketEndpoints
    private let payments: PaymentEndpoint
    private let sessions: MerchantSessionEndpoint
    private let files: BrowserFiles
    private let guesses: Mutex<FailureBackoff<ClientAddress>>
    private let metrics: CheckoutMetrics
    private let logger: Logger
    private let refusals = Mutex(FailureLogThrottle())
    private let servers = Mutex(Shares<String>(limit: CheckoutResponder.serverLimit))

    init(
        merchants: MerchantLibrary, details: OrderDetailsEndpoints, changes: OrderChangesEndpoint,
        confirm: ConfirmEndpoint, notify: NotifyEndpoint, webhooks: WebhookEndpoint, baskets: BasketEndpoints,
        payments: PaymentEndpoint, sessions: MerchantSessionEndpoint, files: BrowserFiles,
        backoff: FailureBackoff<ClientAddress>.Limits = .init(), metrics: CheckoutMetrics, logger: Logger
    ) {
        self.reading = ExtendedReading(
            bodyLimit: { Self.bodyLimit($0, merchants.merchants, webhooks) }, bodies: RequestLimits.largestBody,
            arrivalLimit: Self.arrivalLimit)
        self.merchants = merchants
        self.details = details
        self.changes = changes
        self.confirm = confirm
        self.notify = notify
        self.webhooks = webhooks
        self.baskets = baskets
        self.payments = payments
        self.sessions = sessions
        self.files = files
        self.guesses = Mutex(FailureBackoff(backoff))
        self.metrics = metrics
        self.logger = logger
    }

    /// The facts of a request before it is answered.
    private struct Call {
        let request: Request
        let identifier: String
        let started = NIODeadline.now()
        var route = CheckoutMetrics.Route.none
        var merchant: String?
        /// The origin of the calling page, once it is known to be a merchant's.
        var origin: PageOrigin?
        /// The webhook that the event is for.
        var webhook: String?
    }

    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        let call = Call(request: request, identifier: RequestIdentifier.random())
        return eventLoop.makeFutureWithTask {
            var call = call
            let answer: Answer
            do throws(CheckoutFailure) {
                answer = try await self.answer(&call)
            } catch {
                answer = self.slowedDown(error, request.client).answer(request: call.identifier)
            }
            return self.finish(answer, call)
        }
    }

    func refusal(_ fault: RequestFault, of request: Request?, on eventLoop: any EventLoop) -> Answer {
        let identifier = RequestIdentifier.random()
        var answer = CheckoutFailure(fault).answer(request: identifier)
        guard let request else {
            answer.headers.replaceOrAdd(name: "x-request-id", value: identifier)
            self.metrics.answered(.none, merchant: nil, answer.status, nanoseconds: 0)
            return answer
        }
        var call = Call(request: request, identifier: identifier)
        self.identify(&call, self.merchants.merchants)
        if let merchant = call.merchant { self.note(fault, call, merchant, eventLoop) }
        return self.finish(answer, call)
    }

    /// Finds out from the head of a refused request whose it is. A wrong key is no guess here.
    private func identify(_ call: inout Call, _ merchants: Merchants) {
        guard let route = try? CheckoutRoute(method: call.request.method, target: call.request.target) else { return }
        call.route = route.label
        if case .source(let name) = route {
            call.merchant = merchants.webhook(name)?.merchant.name
            call.webhook = merchants.webhook(name)?.webhook.name
        } else if route.isForServers {
            _ = try? self.caller(&call, merchants)
        } else {
            _ = try? self.page(&call, merchants)
        }
    }

    /// Logs the refusal of a merchant's request before its body was read: the first of a kind, then their number.
    private func note(_ fault: RequestFault, _ call: Call, _ merchant: String, _ eventLoop: any EventLoop) {
        let place = call.webhook.map { "\(call.route.rawValue)/\($0)" } ?? call.route.rawValue
        let kind = "\(merchant) \(place) \(fault.status.code)"
        let metadata: Logger.Metadata = [
            "merchant": "\(merchant)", "route": "\(place)", "status": "\(fault.status.code)",
        ]
        switch self.refusals.withLock({ $0.failed(kind, fault.message, at: .now()) }) {
        case .write:
            self.logger.warning(
                "request refused before its body was read",
                metadata: metadata.merging(["reason": "\(fault.message)", "request": "\(call.identifier)"]) { $1 })
        case .summarise(let moment):
            eventLoop.scheduleTask(deadline: moment) {
                guard let summary = self.refusals.withLock({ $0.summary(of: kind, at: .now()) }) else { return }
                self.logger.warning(
                    "more requests refused before their bodies were read",
                    metadata: metadata.merging(["reason": "\(summary.reason)", "count": "\(summary.count)"]) { $1 })
            }
        case .count: break
        }
    }

    private func answer(_ call: inout Call) async throws(CheckoutFailure) -> Answer {
        let route = try CheckoutRoute(method: call.request.method, target: call.request.target)
        call.route = route.label
        let merchants = self.merchants.merchants
        switch route {
        case .orderDetails:
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.details.mint(call.request, caller)
            }
        case .grants: return try self.details.grant(call.request, try self.caller(&call, merchants))
        case .links:
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.details.link(call.request, caller)
            }
        case .order(let key, let type):
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.changes.answer(call.request, caller, key, type, identifier: nil)
            }
        case .part(let key, let type, let identifier):
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.changes.answer(call.request, caller, key, type, identifier: identifier)
            }
        case .confirm(let payment):
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.confirm.answer(call.request, caller, payment: payment, identifier: call.identifier)
            }
        case .notify:
            return try await self.serve(&call, merchants) { call, caller throws(CheckoutFailure) in
                try await self.notify.answer(call.request, caller)
            }
        case .source(let name):
            guard let (merchant, webhook) = merchants.webhook(name) else {
                throw CheckoutFailure(.notFound, "there is no such source")
            }
            call.merchant = merchant.name
            call.webhook = webhook.name
            return try await self.webhooks.answer(call.request, webhook, of: merchant)
        case .metadata:
            guard let origin = BasketEndpoints.origin(call.request), let (merchant, _) = merchants[origin] else {
                return BasketEndpoints.disabled
            }
            call.origin = origin
            call.merchant = merchant.name
            return BasketEndpoints.metadata(merchant)
        case .basket(let basket):
            let (merchant, page) = try self.page(&call, merchants)
            return try await self.baskets.basket(
                call.request, merchant, page, basket: basket, identifier: call.identifier)
        case .postalCode(let basket):
            let (merchant, page) = try self.page(&call, merchants)
            return try await self.baskets.postalCode(
                call.request, merchant, page, basket: basket, identifier: call.identifier)
        case .payment:
            let (merchant, page) = try self.page(&call, merchants)
            return try await self.payments.answer(call.request, merchant, page, identifier: call.identifier)
        case .grantedDetails:
            let (merchant, page) = try self.page(&call, merchants)
            return try self.details.redeem(call.request, page.origin, merchant)
        case .validate:
            let (merchant, page) = try self.page(&call, merchants)
            return try await self.sessions.answer(call.request, merchant, page, identifier: call.identifier)
        case .association: return try DomainAssociation.file(call.request, merchants)
        case .root: return try DomainAssociation.root(call.request, merchants)
        case .file(let file): return try self.files.answer(call.request, file)
        case .preflight(let methods):
            _ = try self.page(&call, merchants)
            return Answer(.noContent, headers: Self.preflight(methods))
        }
    }

    /// Returns the most bytes of a request's body; nil for a request of a server without a right key, for one of a page
    /// of no merchant, and for an event without a signature, a source, or a place.
    private static func bodyLimit(_ request: Request, _ merchants: Merchants, _ webhooks: WebhookEndpoint) -> Int? {
        guard let route = try? CheckoutRoute(method: request.method, target: request.target) else { return 16 << 10 }
        if case .source(let name) = route {
            return merchants.webhook(name).flatMap { webhooks.bodyLimit(request, $0.webhook) }
        }
        let isWanted =
            route.isForServers
            ? (try? Self.caller(request, merchants)) != nil
            : !route.isForPages || request.fields[.origin].flatMap { PageOrigin($0) }.flatMap { merchants[$0] } != nil
        return isWanted ? route.bodyLimit : nil
    }

    /// Refuses a request whose body was not read, though it is wanted by now: the merchants have changed meanwhile.
    private static func requireBody(_ request: Request) throws(CheckoutFailure) {
        guard request.isBodyIgnored else { return }
        throw CheckoutFailure.unavailable("the body was not read, send the request again", retryAfterSeconds: 1)
    }

    /// Identifies the calling server by its key.
    ///
    /// A browser that asks its user for a key sends it with every page's requests from then on, those of sibling hosts
    /// as well; servers do not send `Sec-Fetch-Site`, and a person's own request has `none`. Source: Fetch Metadata
    /// Request Headers §2.3
    private static func caller(_ request: Request, _ merchants: Merchants) throws(CheckoutFailure) -> Caller {
        guard !request.fields.others.contains(where: { $0.name == .fetchSite && $0.value != "none" }) else {
            throw CheckoutFailure(.originRefused, "a page may not send this request")
        }
        let key = try KeyReading.key(request.fields)
        guard let caller = merchants.caller(key: key) else {
            var failure = KeyReading.refused
            failure.isGuess = true
            throw failure
        }
        return caller
    }

    private func caller(_ call: inout Call, _ merchants: Merchants) throws(CheckoutFailure) -> Caller {
        var caller = try Self.caller(call.request, merchants)
        caller.trace = call.request.fields.trace
        call.merchant = caller.merchant.name
        try Self.requireBody(call.request)
        return caller
    }

    /// Answers the request of a server in a place of its merchant's share.
    private func serve(
        _ call: inout Call, _ merchants: Merchants, _ act: (Call, Caller) async throws(CheckoutFailure) -> Answer
    ) async throws(CheckoutFailure) -> Answer {
        let caller = try self.caller(&call, merchants)
        let name = caller.merchant.name
        guard self.servers.withLock({ $0.take(name) }) else {
            throw CheckoutFailure.unavailable(
                "too many requests of this merchant are in progress", retryAfterSeconds: 1)
        }
        defer { self.servers.withLock { $0.give(name) } }
        return try await act(call, caller)
    }

    /// Identifies the calling page by its origin.
    private func page(
        _ call: inout Call, _ merchants: Merchants
    ) throws(CheckoutFailure) -> (Merchant, Merchant.Page) {
        guard let text = call.request.fields[.origin], let origin = PageOrigin(text),
            let (merchant, page) = merchants[origin]
        else { throw CheckoutFailure(.originRefused, "this origin is not allowed") }
        call.origin = origin
        call.merchant = merchant.name
        try Self.requireBody(call.request)
        return (merchant, page)
    }

    /// Source: Fetch standard, "CORS-preflight request"
    private static func preflight(_ methods: String) -> HTTPHeaders {
        [
            "access-control-allow-methods": methods,
            "access-control-allow-headers": "Content-Type, Waybill-Basket-Token", "access-control-max-age": "7200",
        ]
    }

    /// Asks a client that guesses repeatedly to wait.
    private func slowedDown(_ failure: CheckoutFailure, _ client: ClientAddress) -> CheckoutFailure {
        guard failure.isGuess, let seconds = self.guesses.withLock({ $0.failed(client, at: .now()) }) else {
            return failure
        }
        var slowed = CheckoutFailure(.rateLimited, "too many wrong keys or grants came from this address")
        slowed.headers = ["retry-after": String(seconds)]
        return slowed
    }

    /// Adds the headers that all answers have, and records the metrics.
    private func finish(_ answer: Answer, _ call: Call) -> Answer {
        var answer = answer
        answer.headers.replaceOrAdd(name: "x-request-id", value: call.identifier)
        if let origin = call.origin {
            answer.headers.add(contentsOf: origin.fields)
            if !answer.headers.contains(name: "vary") { answer.headers.add(name: "vary", value: "Origin") }
        }
        self.metrics.answered(
            call.route, merchant: call.merchant, answer.status,
            nanoseconds: (NIODeadline.now() - call.started).nanoseconds)
        if let webhook = call.webhook { self.metrics.answered(webhook: webhook, answer.status) }
        return answer
    }
}

/// The identifier of a request, for the caller and the log.
enum RequestIdentifier {
    /// 26 characters with 5 random bits each.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        let digits = Array("0123456789abcdefghjkmnpqrstvwxyz")
        return String((0..<26).map { _ in digits[Int.random(in: 0..<32, using: &generator)] })
    }
}
