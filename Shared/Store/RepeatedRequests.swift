import Cryptography
public import Redis

/// The requests that a caller may send again, with the answers that they got.
///
/// These keys are not rebuilt from Kafka: after Redis lost them a request may be executed again. They expire: a request
/// in progress after `runningSeconds`, an answer after `keptSeconds`.
public struct RepeatedRequests: Sendable {
    /// Longer than any request takes.
    static let runningSeconds: Int64 = 120
    static let keptSeconds: Int64 = 86_400

    /// The state of a request when it arrives.
    public enum RequestState: Hashable, Sendable {
        /// It is the first; `finish` or `forget` follows.
        case first
        /// The same one is being worked on.
        case running
        /// It was answered with these bytes.
        case answered([UInt8])
        /// Another request has the same name.
        case conflict
    }

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Notes that a request begins, unless it was noted before.
    ///
    /// - Parameters:
    ///   - name: the name of the request, with all that it belongs to. Only its digest is kept.
    ///   - content: the content of the request. Only its digest is kept.
    public func begin(_ name: String, content: [UInt8]) async throws(StoreError) -> RequestState {
        let key = StoreKeys.repeated(name)
        let digest = SHA256.hex(content)
        let reply = try await self.send(
            RedisCommand(
                "SET", .string(key), .string("\(digest) "), "NX", "EX", .integer(Self.runningSeconds)))
        if reply.text == "OK" { return .first }
        guard let stored = try await self.send(RedisCommand("GET", .string(key))).bytes, stored.count > 64 else {
            // It expired a moment ago, or is not a value that we write: the caller may try again.
            return .running
        }
        guard stored.prefix(64).elementsEqual(digest.utf8) else { return .conflict }
        return stored.count == 65 ? .running : .answered(Array(stored[65...]))
    }

    /// Keeps the answer of a request that began.
    public func finish(_ name: String, content: [UInt8], answer: [UInt8]) async throws(StoreError) {
        let value = Array("\(SHA256.hex(content)) ".utf8) + answer
        _ = try await self.send(
            RedisCommand("SET", .string(StoreKeys.repeated(name)), .bytes(value), "EX", .integer(Self.keptSeconds)))
    }

    /// Forgets a request that had no result, so that it may be sent again.
    public func forget(_ name: String) async throws(StoreError) {
        _ = try await self.send(RedisCommand("DEL", .string(StoreKeys.repeated(name))))
    }

    private func send(_ command: RedisCommand) async throws(StoreError) -> RedisValue {
        try await self.redis.reply(to: command, "remembering a request")
    }
}
