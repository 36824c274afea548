import Cryptography
import HTTPServer
import Logging
import Model
import NIOCore
import NIOHTTP1
import Store

/// An answer as it is stored for a repeated request: without order details, so that no token is stored with it. It is
/// stored encrypted, since a payment provider repeats contacts and secrets.
struct StoredAnswer: Hashable, Sendable {
    let status: Int
    let contentType: String
    let body: [UInt8]

    init(status: Int, contentType: String, body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    /// The stored form: status, media type and body, with a line end after each of the first two.
    var encoded: [UInt8] { Array("\(self.status)\n\(self.contentType)\n".utf8) + self.body }

    init?(decoding bytes: [UInt8]) {
        let parts = bytes.split(separator: .lineFeed, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let status = Int(String(decoding: parts[0], as: UTF8.self)) else { return nil }
        self.init(status: status, contentType: String(decoding: parts[1], as: UTF8.self), body: Array(parts[2]))
    }

    /// Returns the end of the request that it answers.
    ///
    /// A provider whose access was refused, that is busy with the same request, or that wants it later has not decided
    /// it: the same request goes to it again, under the same key. Source: RFC 9110 §15.5; RFC 8470 §5.2; RFC 6585 §4
    ///
    /// - Parameter secret: the key under which the answer is stored.
    func settlement(_ secret: [UInt8]) -> RepeatedRequests.Settlement {
        switch self.status {
        case 401, 403, 408, 409, 425, 429: return .undone
        case 500...: return .unknown
        default:
            guard let sealed = try? AES256GCM.seal(self.encoded, key: secret) else { return .unknown }
            return .answered(sealed)
        }
    }

    /// Makes the answer to the caller. A successful one has the order details: in its object in both spellings, or in
    /// a header if it is not an object.
    func answer(_ details: OrderDetails?) -> Answer {
        var headers: HTTPHeaders = [
            "content-type": self.contentType, "cache-control": "no-store", "x-content-type-options": "nosniff",
        ]
        let status = HTTPResponseStatus(statusCode: self.status)
        guard let details, (200..<300).contains(self.status) else {
            return Answer(status, headers: headers, body: [ByteBuffer(bytes: self.body)])
        }
        guard var object = (try? JSON(parsing: self.body))?.object else {
            headers.add(name: "waybill-order-details", value: Base64URL.encode(details.json.serialized))
            return Answer(status, headers: headers, body: [ByteBuffer(bytes: self.body)])
        }
        object["apple_pay_order_details"] = details.snakeJSON
        object["order_details"] = details.json
        return Answer(status, headers: headers, body: [ByteBuffer(bytes: JSON.object(object).serialized)])
    }
}

/// Answers a request that is repeated with the same `Idempotency-Key` as it was answered before.
///
/// A request takes effect once: after an unknown outcome, such as a call without an answer or an answer with 5xx, it is
/// performed again only where that is harmless. A request that certainly did nothing leaves its key free.
struct IdempotentRequests: Sendable {
    let store: RepeatedRequests
    let logger: Logger

    /// - Parameters:
    ///   - route: the route with all identifiers of the path. The same key elsewhere is another request.
    ///   - isRepeatable: true if performing the same request twice has the effect of one. It is then performed also
    ///     while nothing can be stored.
    ///   - act: performs the request.
    func answer(
        _ request: Request, _ caller: Caller, route: String, isRepeatable: Bool,
        _ act: () async throws(CheckoutFailure) -> StoredAnswer
    ) async throws(CheckoutFailure) -> StoredAnswer {
        guard let key = try IdempotencyKey.read(request.fields) else { return try await act() }
        let name = "\(caller.merchant.name)/\(caller.key.name)\n\(route)\n\(key)"
        let content = Array("\(request.method) \(request.target)\n".utf8) + request.body.readableBytesView
        let attempt = RepeatedRequests.Attempt(name, content: content)
        let secret = caller.key.derived("answer\n\(name)")
        let state: RepeatedRequests.RequestState
        do throws(StoreError) {
            state = try await self.store.begin(attempt, isRepeatable: isRepeatable)
        } catch {
            guard !isRepeatable else { return try await act() }
            // The entry may be there although the request is not performed.
            try? await self.store.settle(attempt, as: .undone)
            throw CheckoutFailure.unavailable("requests with an idempotency key cannot be stored right now")
        }
        switch state {
        case .first: break
        case .running: throw CheckoutFailure(.inProgress, "the same request is in progress")
        case .conflict:
            throw CheckoutFailure(
                .idempotencyConflict, "another request came with this key", param: "Idempotency-Key")
        case .answered(let sealed):
            guard let bytes = try? AES256GCM.open(sealed, key: secret), let answer = StoredAnswer(decoding: bytes)
            else { throw Self.unknown }
            return answer
        case .unknown: throw Self.unknown
        }
        do throws(CheckoutFailure) {
            let answer = try await act()
            await self.settle(attempt, as: answer.settlement(secret))
            return answer
        } catch {
            await self.settle(attempt, as: error.mayHaveActed ? .unknown : .undone)
            throw error
        }
    }

    private static let unknown = CheckoutFailure(
        .outcomeUnknown,
        "the outcome of the first request with this key is unknown: look it up, then use another key if need be")

    /// Without its settlement an entry has an unknown outcome after a while, so a failure is only logged.
    private func settle(_ attempt: RepeatedRequests.Attempt, as settlement: RepeatedRequests.Settlement) async {
        do throws(StoreError) {
            try await self.store.settle(attempt, as: settlement)
        } catch {
            self.logger.warning("cannot store the end of a request", metadata: ["error": "\(error)"])
        }
    }
}

/// A caller's own name for a request that it may send again.
enum IdempotencyKey {
    /// - Returns: nil if the request has none.
    static func read(_ fields: Request.Fields) throws(CheckoutFailure) -> String? {
        guard fields.others.contains(where: { $0.name == .idempotencyKey }) else { return nil }
        guard let key = fields[.idempotencyKey], (1...255).contains(key.utf8.count),
            key.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw CheckoutFailure(
                .invalidParameter, "must be 1 to 255 visible ASCII characters, once", param: "Idempotency-Key")
        }
        return key
    }
}
