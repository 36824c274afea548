import FoundationEssentials
import HTTPServer
import Kafka
import Model
import NIOCore
import NIOHTTP1
import Store
import Tokens

/// Registering, unregistering, and listing changes.
///
/// Source: Wallet Orders §1.2b, §1.2c, §1.2d
struct RegistrationEndpoints: Sendable {
    let reader: PackageReader
    let views: StaleReadGuard
    let registrations: Registrations
    let deviceOrders: DeviceOrders
    let tokens: TokenAuthority
    let producer: KafkaProducer
    let topics: Topics
    let metrics: GatewayMetrics
    /// Most devices of one order.
    var deviceLimit = Registrations.deviceLimit
    /// Refuses requests immediately that would wait for Kafka while it is away.
    let gate = KafkaCircuitBreaker()
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// `POST …/registrations/{type}/{id}`: 201 for a new registration, 200 for an existing one.
    ///
    /// The registration is acknowledged by Kafka before it is in Redis and before Wallet gets the answer: registrations
    /// that Wallet knows of survive the loss of Redis. A repeated POST replaces the push token; within an hour of the
    /// record it repeats, it publishes none. 429 for a new device of an order that has as many as it may have, and for
    /// a new device or push token of an order that had too many new ones recently. A registration that Redis does not
    /// take ends at once: with 401 if the order was removed meanwhile, with 503 if Redis is away.
    func register(
        _ key: RegistrationKey, _ fields: Request.Fields, body: ByteBuffer, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        let token: PushToken
        do {
            token = try Self.pushToken(body)
        } catch {
            return eventLoop.makeSucceededFuture(.failure(.badRequest, error.message))
        }
        return self.authorized(key.order, fields, on: eventLoop) {
            // Attempts that Kafka's absence would refuse do not count among the new devices of the hour.
            try self.gate.check(self.topics.registrations)
            let record = RegistrationRecord(pushToken: token, registeredEpochMilliseconds: self.now())
            let admission = try await self.registrations.admit(key, record, limit: self.deviceLimit)
            if admission == .unchanged { return Answer(.ok) }
            if let refusal = self.refusal(admission) { return refusal }
            let stamp = try await self.publish(key, record.encoded, at: record.registeredEpochMilliseconds)
            let outcome: Registrations.Outcome
            do {
                outcome = try await self.registrations.register(key, record, at: stamp)
            } catch {
                // Wallet hears that it is not registered and tries again; Kafka says the same until then. If Kafka does
                // not take the end, the removal of the order finds the record.
                try? await self.end(key)
                throw error
            }
            switch outcome {
            case .new: return Answer(.created)
            case .renewed: return Answer(.ok)
            case .removed:
                // Its removal has ended the registrations that it found, and this one was not there yet.
                try await self.end(key)
                return .unauthorized
            }
        }
    }

    /// Ends a registration, in Kafka and then in Redis.
    private func end(_ key: RegistrationKey) async throws {
        let stamp = try await self.publish(key, nil, at: self.now())
        try await self.registrations.unregister(key, at: stamp)
    }

    /// `DELETE …/registrations/{type}/{id}`: 200, even if there was none; 429 if too many ends of nonexistent
    /// registrations came recently.
    func unregister(
        _ key: RegistrationKey, _ fields: Request.Fields, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        self.authorized(key.order, fields, on: eventLoop) {
            try self.gate.check(self.topics.registrations)
            if let refusal = self.refusal(try await self.registrations.admitEnd(of: key, limit: self.deviceLimit)) {
                return refusal
            }
            try await self.end(key)
            return Answer(.ok)
        }
    }

    /// Returns the refusal of a registration; nil if it is accepted.
    ///
    /// Wallet knows 200, 201 and 401 and retries later after anything else (Wallet Orders §1.2b, §1.3). 401 would be
    /// false about the token, and 5xx an alarm that no operator can act on. 429 is accurate: there may be room later,
    /// when a device unregisters or its push token ends.
    private func refusal(_ admission: Registrations.Admission) -> Answer? {
        let (reason, message, seconds): (GatewayMetrics.Refusal, String, Int64)
        switch admission {
        case .admitted, .unchanged: return nil
        case .full:
            (reason, message, seconds) = (.devices, "the maximum number of devices is registered for this order", 3600)
        case .tooSoon(let milliseconds):
            (reason, message) = (.rate, "too many devices or push tokens registered or unregistered within an hour")
            seconds = max(1, (milliseconds + 999) / 1000)
        }
        self.metrics.refused(reason)
        return .tooManyRequests(message, retryAfterSeconds: seconds)
    }

    /// `GET …/registrations/{type}?ordersModifiedSince={tag}`: 200 with the changes, 204 for none.
    ///
    /// No token is required: knowing the device identifier is the authentication.
    /// - Parameter isBrief: true if too many empty lists went to the client's address.
    func changes(
        of device: DeviceIdentifier, type: OrderTypeIdentifier, since tag: String, isBrief: Bool,
        on eventLoop: any EventLoop
    ) -> EventLoopFuture<Answer> {
        self.views.answer(on: eventLoop) { _ in
            self.deviceOrders.listing(of: device, type: type, since: tag, isBrief: isBrief, on: eventLoop).map {
                switch $0 {
                case .changed(let changes): Self.answer(changes)
                case .unchanged, .unknown:
                    Answer(.noContent, headers: ["cache-control": "no-store"])
                case .uncertain: .restoring
                }
            }
        }
    }

    private static func answer(_ changes: DeviceOrders.Changes) -> Answer {
        let identifiers = changes.orders.map { JSON.string($0.rawValue) }
        let body: JSON = ["orderIdentifiers": .array(identifiers), "lastModified": .string(changes.tag)]
        return .json(.ok, body.serialized)
    }

    private func authorized(
        _ key: OrderKey, _ fields: Request.Fields, on eventLoop: any EventLoop,
        _ act: @escaping @Sendable () async throws -> Answer
    ) -> EventLoopFuture<Answer> {
        guard let token = Authorization.token(fields.authorization) else {
            return eventLoop.makeSucceededFuture(.unauthorized)
        }
        return self.views.answer(on: eventLoop) { generation in
            let allowed: @Sendable () -> EventLoopFuture<Answer> = {
                // A published record cannot be taken back.
                guard self.views.holds(generation) else { return eventLoop.makeSucceededFuture(.restoring) }
                return eventLoop.makeFutureWithTask(act)
            }
            return self.reader.stamp(of: key, on: eventLoop).flatMap { stamp in
                if let stamp, self.tokens.opens(token, key, stored: stamp.token) { return allowed() }
                // The same as for a package: no client is refused for an order that may only be missing here.
                return self.reader.lookup(of: key, on: eventLoop).flatMap { standing in
                    if let stamp = standing.stamp, self.tokens.opens(token, key, stored: stamp.token) {
                        return allowed()
                    }
                    return eventLoop.makeSucceededFuture(self.refusal(of: token, for: key, standing))
                }
            }
        }
    }

    private func refusal(of token: String, for key: OrderKey, _ standing: PackageReader.LookupResult) -> Answer {
        guard standing.isComplete else { return .restoring }
        // A client that has the right token of an order that does not exist is not guessing.
        let isRight =
            standing.removedToken.map { self.tokens.opens(token, key, stored: $0) }
            ?? (standing.stamp == nil && self.tokens.isToken(token, of: key))
        return isRight ? .unauthorized : .wrongToken
    }

    /// Publishes a registration or its end.
    ///
    /// Requests for one registration may race, here and in other gateways. Kafka determines their order, and Redis
    /// applies the same order, so both end with the same state whichever gateway reaches Redis first.
    private func publish(
        _ key: RegistrationKey, _ value: [UInt8]?, at milliseconds: Int64
    ) async throws -> RegistrationStamp {
        let message = KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: value)
        let position = try await self.gate.produce(message, with: self.producer)
        return RegistrationStamp(
            offset: position.offset, epochMilliseconds: milliseconds, cluster: self.producer.cluster,
            partition: position.partition)
    }

    /// The reason why a body is refused.
    struct BodyError: Error { let message: String }

    /// - Parameter body: `{"pushToken": "…"}`; other members are ignored.
    static func pushToken(_ body: ByteBuffer) throws(BodyError) -> PushToken {
        let json: JSON
        do {
            json = try JSON(parsing: Array(body.readableBytesView))
        } catch {
            throw BodyError(message: "the body must be JSON: \(error)")
        }
        guard let object = json.object else {
            throw BodyError(message: "the body must be a JSON object, it is \(json.kind)")
        }
        guard let text = object["pushToken"]?.string else {
            throw BodyError(message: "$.pushToken must be a string")
        }
        do {
            return try PushToken(text)
        } catch {
            throw BodyError(message: "$.pushToken: \(error)")
        }
    }
}

extension StaleReadGuard {
    /// Returns the answer of `act`, if the view was beyond doubt before and still is.
    ///
    /// - Parameter act: receives the generation, to check that it still holds before doing anything irreversible.
    func answer(
        on eventLoop: any EventLoop, _ act: @escaping @Sendable (UInt64) -> EventLoopFuture<Answer>
    ) -> EventLoopFuture<Answer> {
        self.currentGeneration(on: eventLoop).flatMap { generation in
            guard let generation else { return eventLoop.makeSucceededFuture(.restoring) }
            return act(generation).map { self.holds(generation) ? $0 : .restoring }
        }
    }
}
