import Brands
import FoundationEssentials
import HTTPServer
import Model
import NIOCore
import NIOHTTP1
import Store
import Tokens

/// `GET` and `POST /v1/orders/{type}/{id}/mail?expires=…&signature=…`: the link in a mail, as a page, and its buttons.
///
/// Programs open every link of a mail, with the agent of any device. So `GET` reads what decides about the link and
/// nothing of the package, asks no packager for one, signs nothing and makes no link to the package: a page with two
/// buttons, of which the browser shows the one for its device. Only a button's `POST` leads on.
/// Source: Wallet Orders §6
struct MailEndpoint: Sendable {
    /// The time for which the link is valid to which the button leads, in seconds.
    static let packageSeconds: Int64 = 60

    let package: PackageEndpoint
    let reader: PackageReader
    let store: OrderStore
    let views: StaleReadGuard
    let tokens: TokenAuthority
    let brands: BrandLibrary
    /// The longest time that a link may be valid for; 0: links are refused.
    let longestSeconds: Int64
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// The purpose of a request.
    enum Purpose: String, Hashable, Sendable {
        /// The page, for a person or a program.
        case page
        /// The button of a device with Wallet.
        case wallet
        /// The button of any other device.
        case order
    }

    /// - Parameters:
    ///   - expires: from the query; anything but digits is not a link.
    ///   - signature: from the query.
    func answer(
        _ key: OrderKey, _ purpose: Purpose, expires: String, signature: String, for request: Request,
        on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let link = MailLink(key: key, expiresEpochSeconds: LinkEndpoint.moment(expires))
        let page = MailPage(
            shop: self.brands.brands[key.orderType]?.rules.merchant?["displayName"]?.string ?? "",
            language: RequestTarget(request.target).parameter("language") ?? "")
        return self.views.currentGeneration(on: eventLoop).flatMap { generation in
            guard let generation else { return eventLoop.makeSucceededFuture(.restoring) }
            return self.reader.lookup(of: key, on: eventLoop).flatMap { standing in
                guard self.views.holds(generation) else { return eventLoop.makeSucceededFuture(.restoring) }
                switch self.verdict(link, signature, standing) {
                case nil: return eventLoop.makeSucceededFuture(.restoring)
                case .forged: return eventLoop.makeSucceededFuture(page.answer(.forbidden, .invalid).asGuess)
                case .expired, .tooFarAhead: return eventLoop.makeSucceededFuture(page.answer(.forbidden, .expired))
                case .valid where standing.isRemoved:
                    return eventLoop.makeSucceededFuture(page.answer(.notFound, .removed))
                case .valid: return self.act(link, signature, purpose, page, request, eventLoop)
                }
            }
        }
    }

    /// - Returns: nil if the link may be that of a version which is not restored yet.
    private func verdict(
        _ link: MailLink, _ signature: String, _ standing: PackageReader.LookupResult
    ) -> PackageLink.Verdict? {
        guard self.longestSeconds > 0 else { return .forged }
        // The mail may be faster than the order.
        let token = standing.stamp?.token ?? standing.removedToken ?? self.tokens.token(for: link.key)
        let verdict = link.verdict(
            signature: signature, token: token, longestSeconds: self.longestSeconds, nowEpochSeconds: self.now())
        return verdict == .forged && !standing.isComplete ? nil : verdict
    }

    private func act(
        _ link: MailLink, _ signature: String, _ purpose: Purpose, _ page: MailPage, _ request: Request,
        _ eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let key = link.key
        switch purpose {
        case .page: return eventLoop.makeSucceededFuture(page.answer(link, signature: signature))
        case .wallet:
            let link = PackageLink(key: key, expiresEpochSeconds: self.now() + Self.packageSeconds)
            let signature = link.signature(self.tokens.secrets(for: key.orderType))
            // Beside the mail link, whatever a proxy calls the path.
            let target = "package?expires=\(link.expiresEpochSeconds)&signature=\(signature)"
            return eventLoop.makeSucceededFuture(Self.redirect(to: target))
        case .order:
            return self.package.answer(
                granted: key, for: request,
                as: { eventLoop in eventLoop.makeFutureWithTask { try await self.place(of: key, page) } },
                on: eventLoop)
        }
    }

    /// Reads the address of an order's page in the shop; nil if the order does not exist.
    private func place(of key: OrderKey, _ page: MailPage) async throws -> (token: AuthenticationToken, Answer)? {
        guard let state = try await self.store.orders([key]).first?.get()?.state, !state.isRemoved else { return nil }
        // A valid order has an https URL there.
        let address = state.document.members["orderManagementURL"]?.string
        return (state.token, address.map(Self.redirect) ?? page.answer(.notFound, .elsewhere))
    }

    private static func redirect(to target: String) -> Answer {
        Answer(.seeOther, headers: ["location": target, "cache-control": "private, no-store"])
    }
}
