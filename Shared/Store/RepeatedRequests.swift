import Cryptography
public import Redis

/// The requests that a caller may send again, with the answers that they got.
///
/// An entry is there before its request is performed. Until `settle` it counts as running for `runningSeconds`, then as
/// unknown: a process may have ended at any moment. An entry expires after `keptSeconds`. These keys are not rebuilt
/// from Kafka: after Redis lost them a request may be performed again. One that must not be performed twice does not
/// begin before a replica has its entry, if Redis has replicas: a fail-over does not lose it.
public struct RepeatedRequests: Sendable {
    /// Longer than any request takes.
    static let runningSeconds: Int64 = 120
    /// The time for which an entry is kept, in seconds.
    public static let keptSeconds: Int64 = 86_400

    /// One attempt to perform a request, which owns the entry that it makes.
    public struct Attempt: Sendable {
        fileprivate let key: String
        /// The digest of the content.
        fileprivate let digest: String
        /// 128 random bits: another attempt with the same name neither removes nor overwrites the entry.
        fileprivate let owner: String

        /// - Parameters:
        ///   - name: the name of the request, with all that it belongs to. Only its digest is kept.
        ///   - content: the content of the request. Only its digest is kept.
        public init(_ name: String, content: [UInt8]) {
            var generator = SystemRandomNumberGenerator()
            let bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            self.key = StoreKeys.repeated(name)
            self.digest = SHA256.hex(content)
            self.owner = String(decoding: Hexadecimal.digits(bytes), as: UTF8.self)
        }
    }

    /// The state of a request when it arrives.
    public enum RequestState: Hashable, Sendable {
        /// The attempt owns the entry; `settle` follows.
        case first
        /// The same request is being performed.
        case running
        /// The same request was performed, or was not: nobody knows.
        case unknown
        /// The same request was answered with these bytes.
        case answered([UInt8])
        /// Another request has the same name.
        case conflict
    }

    /// The end of an attempt.
    public enum Settlement: Hashable, Sendable {
        /// The request is answered with these bytes when it comes again.
        case answered([UInt8])
        case unknown
        /// Nothing was done: the name is free again.
        case undone
    }

    /// The longest wait for a replica, in milliseconds: less than the deadline of a command.
    private static let replicationMilliseconds: Int64 = 500

    private let redis: RedisClient
    private let waiting: RedisClient

    /// - Parameter waiting: a client for commands that wait; nil for the same one.
    public init(redis: RedisClient, waiting: RedisClient? = nil) {
        self.redis = redis
        self.waiting = waiting ?? redis
    }

    /// Notes that a request begins, unless it was noted before.
    ///
    /// - Parameter isRepeatable: true for a request that may be performed again while its outcome is unknown.
    /// - Throws: also if Redis has replicas and none of them has the entry of a request that is not repeatable. The
    ///   entry may be there.
    public func begin(_ attempt: Attempt, isRepeatable: Bool) async throws(StoreError) -> RequestState {
        let words = try await self.run(
            StoreScripts.beginRequest, attempt.key,
            [
                .string(attempt.digest), .string(attempt.owner), .integer(Self.runningSeconds),
                .integer(Self.keptSeconds), .integer(isRepeatable ? 1 : 0),
            ]
        ).array
        switch words?.first?.text {
        case "first":
            if !isRepeatable { try await self.replicate(attempt) }
            return .first
        case "running": return .running
        case "conflict": return .conflict
        case "answered": return .answered(words?.last?.bytes ?? [])
        default: return .unknown
        }
    }

    /// Notes the end of an attempt, unless the entry belongs to another one by now.
    public func settle(_ attempt: Attempt, as settlement: Settlement) async throws(StoreError) {
        let value: [UInt8] =
            switch settlement {
            case .answered(let bytes): Array("A".utf8) + bytes
            case .unknown: Array("U".utf8)
            case .undone: []
            }
        _ = try await self.run(
            StoreScripts.settleRequest, attempt.key,
            [.string("\(attempt.digest)\(attempt.owner) "), .bytes(value), .integer(Self.keptSeconds)])
    }

    /// Waits until a replica has the entry of an attempt, if there is a replica.
    private func replicate(_ attempt: Attempt) async throws(StoreError) {
        let what = "waiting for a replica to have a request"
        let place = RedisArgument.place(.key(attempt.key))
        // WAIT covers the writes of its connection alone, so that the entry is written again over this one.
        let write = RedisCommand("EXPIRE", .string(attempt.key), .integer(Self.keptSeconds))
        func answer(to command: RedisCommand) async throws(StoreError) -> RedisValue? {
            let replies: [RedisValue]
            do {
                replies = try await self.waiting.pipeline([write, command])
            } catch {
                throw StoreError(what, error)
            }
            for case .error(let message) in replies { throw StoreError(what, reply: message) }
            guard replies.first?.integer == 1 else { throw StoreError(.unavailable, "\(what): it is gone") }
            return replies.last
        }
        let information = try await answer(to: RedisCommand("INFO", "replication", place))
        guard RedisServerInformation(information?.text ?? "").replicas ?? 0 > 0 else { return }
        let count = try await answer(to: RedisCommand("WAIT", "1", .integer(Self.replicationMilliseconds), place))
        guard let count = count?.integer, count > 0 else {
            throw StoreError(.unavailable, "\(what): none has it within \(Self.replicationMilliseconds) ms")
        }
    }

    private func run(
        _ script: RedisScript, _ key: String, _ arguments: [RedisArgument]
    ) async throws(StoreError) -> RedisValue {
        try await self.redis.reply(
            to: RedisInvocation(script, keys: [key], arguments: arguments), "remembering a request")
    }
}

/// An entry is the digest of the content, its owner, a space, and `R` with the UNIX second at which the attempt began,
/// `U` for an unknown outcome, or `A` with an answer.
extension StoreScripts {
    /// KEYS: entry. ARGV: digest, owner, seconds after which nothing runs any more, seconds to keep, 1 if an unknown
    /// outcome is no obstacle. Returns the state, with the answer.
    static let beginRequest = RedisScript(
        """
        local now = tonumber(redis.call('TIME')[1])
        local standing = redis.call('GET', KEYS[1])
        if standing then
          if string.sub(standing, 1, 64) ~= ARGV[1] then return {'conflict'} end
          local owner, letter, rest = string.match(standing, '^(%x+) (%u)(.*)$', 65)
          if letter == 'A' then return {'answered', rest} end
          if owner ~= ARGV[2] then
            local began = letter == 'R' and tonumber(rest)
            if began and now - began < tonumber(ARGV[3]) then return {'running'} end
            if ARGV[5] == '0' then return {'unknown'} end
          end
        end
        redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2] .. ' R' .. string.format('%.0f', now), 'EX', ARGV[4])
        return {'first'}
        """)

    /// KEYS: entry. ARGV: digest, owner and a space; the state, empty to remove the entry; seconds to keep it.
    static let settleRequest = RedisScript(
        """
        local standing = redis.call('GET', KEYS[1])
        if standing and string.sub(standing, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
        if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
        redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'EX', ARGV[3])
        return 1
        """)
}
