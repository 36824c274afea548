import FoundationEssentials
import HTTPServer
import Model
import NIOCore
import NIOHTTP1
import Tokens

/// `GET /v1/orders/{type}/{id}/package?expires=…&signature=…`: the package for a browser, by a signed link.
///
/// A person reads the answer if the link cannot be used, so it gives the reason; but a link without a valid signature
/// gets the same answer whether the order exists or not. Source: Wallet Orders §6
struct LinkEndpoint: Sendable {
    let package: PackageEndpoint
    let tokens: TokenAuthority
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// - Parameters:
    ///   - expires: from the query; anything but digits is not a link.
    ///   - signature: from the query.
    func answer(
        _ key: OrderKey, expires: String, signature: String, for request: Request, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let link = PackageLink(key: key, expiresEpochSeconds: Self.moment(expires))
        let secrets = self.tokens.secrets(for: key.orderType)
        switch link.verdict(signature: signature, secrets: secrets, nowEpochSeconds: self.now()) {
        case .valid:
            return self.package.answer(granted: key, for: request, on: eventLoop).map { Self.inline($0, key) }
        case .expired: return Self.refuse("this link has expired: go back to your order for a new one", eventLoop)
        case .tooFarAhead:
            let hours = PackageLink.longestSeconds / 3600
            return Self.refuse("this link was made for more than the \(hours) hours that are allowed", eventLoop)
        case .forged:
            let answer = Answer.failure(.forbidden, "this link is not valid: a part of it is missing or was changed")
            return eventLoop.makeSucceededFuture(answer.asGuess)
        }
    }

    /// Returns the UNIX seconds of a link's parameter; 0 for anything but digits.
    static func moment(_ expires: String) -> Int64 {
        let isNumber = (1...12).contains(expires.utf8.count) && expires.utf8.allSatisfy { (0x30...0x39).contains($0) }
        return isNumber ? Int64(expires) ?? 0 : 0
    }

    private static func refuse(_ message: String, _ eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        eventLoop.makeSucceededFuture(.failure(.forbidden, message))
    }

    /// Makes the answer for a browser: opened immediately, never stored. An identifier needs no quoting.
    ///
    /// Source: Wallet Orders §6; RFC 6266 §4
    private static func inline(_ answer: Answer, _ key: OrderKey) -> Answer {
        guard answer.status == .ok else { return answer }
        var answer = answer
        for name in ["etag", "last-modified", "vary"] { answer.headers.remove(name: name) }
        answer.headers.replaceOrAdd(name: "cache-control", value: "private, no-store")
        // The contents of the package may come from customers; a browser must not take it for a page.
        answer.headers.add(name: "x-content-type-options", value: "nosniff")
        answer.headers.add(name: "content-disposition", value: "inline; filename=\"\(key.order.rawValue).order\"")
        return answer
    }
}
