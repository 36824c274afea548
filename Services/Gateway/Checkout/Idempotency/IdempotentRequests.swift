import Cryptography
import Logging
import Model
import NIOCore
import NIOHTTP1
import Store

/// An answer as it is stored for a repeated request: without order details, so that no token is stored with it.
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
struct IdempotentRequests: Sendable {
    let store: RepeatedRequests
    let logger: Logger

    /// - Parameters:
    ///   - route: the route with all identifiers of the path.
    ///   - act: performed once; its errors and its answers with 5xx are not stored.
    func answer(
        _ request: Request, _ caller: Caller, route: String,
        _ act: () async throws(CheckoutFailure) -> StoredAnswer
    ) async throws(CheckoutFailure) -> StoredAnswer {
        guard let key = try IdempotencyKey.read(request.fields) else { return try await act() }
        let name = "\(caller.merchant.name)/\(caller.key.name)\n\(route)\n\(key)"
        let content = Array(request.body.readableBytesView)
        switch try await self.begin(name, content) {
        case .first: break
        case .running: throw CheckoutFailure(.inProgress, "the same request is in progress")
        case .conflict:
            throw CheckoutFailure(
                .idempotencyConflict, "another request came with this key", param: "Idempotency-Key")
        case .answered(let bytes):
            guard let answer = StoredAnswer(decoding: bytes) else {
                throw CheckoutFailure(.internal, "the stored answer cannot be read")
            }
            return answer
        }
        do throws(CheckoutFailure) {
            let answer = try await act()
            if answer.status < 500 {
                // The work is done: a failure to store the answer must not make the caller repeat it.
                do throws(StoreError) {
                    try await self.store.finish(name, content: content, answer: answer.encoded)
                } catch {
                    self.logger.warning("cannot store an answer", metadata: ["error": "\(error)"])
                }
            } else {
                try? await self.store.forget(name)
            }
            return answer
        } catch {
            try? await self.store.forget(name)
            throw error
        }
    }

    private func begin(_ name: String, _ content: [UInt8]) async throws(CheckoutFailure)
        -> RepeatedRequests.RequestState
    {
        do throws(StoreError) {
            return try await self.store.begin(name, content: content)
        } catch {
            throw CheckoutFailure.unavailable("requests with an idempotency key cannot be stored right now")
        }
    }
}
