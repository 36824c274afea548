import Redis

/// A failure to read or write what Redis has, or the records that it points to.
public struct StoreError: UpstreamFailure {
    public enum Code: Hashable, Sendable {
        /// Redis did not answer or cannot at the moment; a later retry may help.
        case unavailable
        /// The value in Redis is not one that we write.
        case corrupt
        /// The view is being restored, or has not been judged since Redis changed: missing keys may exist.
        case incomplete
        /// The order is cold and its record is not there, or is not read by this process: see `PackageRequests`.
        case cold
        /// The order is cold, and Kafka does not give its record at the moment.
        case unread
    }
    public let code: Code
    public let message: String
    public var description: String { self.message }
    /// The facts that are known of an order that could not be read, if there are any.
    var facts: (any StoreErrorFacts)?

    public var origin: FailureOrigin {
        switch self.code {
        case .unavailable, .incomplete: FailureOrigin(.redis, .everything)
        case .corrupt: FailureOrigin(.order, .order)
        case .cold: FailureOrigin(.kafka, .order)
        case .unread: FailureOrigin(.kafka, .partition)
        }
    }
    /// True if the failure is not that of all orders, and others can be read.
    public var isOfOneOrder: Bool { self.origin.isOfOneOrder }

    init(_ code: Code, _ message: String, facts: (any StoreErrorFacts)? = nil) {
        self.code = code
        self.message = message
        self.facts = facts
    }

    init(_ operation: String, _ error: RedisError) {
        self.init(.unavailable, "\(operation): \(error.message)")
    }

    /// Classifies an error reply.
    ///
    /// A key of another type is damage that waiting does not cure. Everything else (LOADING, BUSY, READONLY, NOPERM) is
    /// about the server and says nothing about the stored values. Before Redis 7.0 a script's error contains the name.
    init(_ operation: String, reply message: String) {
        self.init(message.contains("WRONGTYPE") ? .corrupt : .unavailable, "\(operation): \(message)")
    }
}

/// The facts that a reader of orders knows of one that it could not read.
protocol StoreErrorFacts: Sendable {}

extension RedisClient {
    /// Sends one command.
    ///
    /// - Parameter operation: for messages: `looking up a token`.
    /// - Throws: also for a reply that is an error.
    func reply(to command: RedisCommand, _ operation: String) async throws(StoreError) -> RedisValue {
        let reply: RedisValue
        do {
            reply = try await self.send(command)
        } catch {
            throw StoreError(operation, error)
        }
        if case .error(let message) = reply { throw StoreError(operation, reply: message) }
        return reply
    }

    /// Runs one script; otherwise like the other.
    func reply(to invocation: RedisInvocation, _ operation: String) async throws(StoreError) -> RedisValue {
        let reply: RedisValue?
        do {
            reply = try await self.evaluate([invocation]).first
        } catch {
            throw StoreError(operation, error)
        }
        guard let reply else { throw StoreError(.unavailable, "\(operation): no reply") }
        if case .error(let message) = reply { throw StoreError(operation, reply: message) }
        return reply
    }
}
