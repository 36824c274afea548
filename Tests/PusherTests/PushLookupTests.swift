import Kafka
import Model
import NIOPosix
import Redis
import TestKit
import TestTraits
import Testing

@testable import Pusher
@testable import Store

/// Lookups on a real Redis.
@Suite(.server) struct PushLookupTests {
    /// A gateway was held between Kafka's acknowledgement and its write to Redis, and the order changed meanwhile.
    @Test func aRegistrationNotYetInRedisIsLookedUpAgain() async throws {
        let server = try await PusherFixture.redis()
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let result: Result<Void, any Error>
        do { result = .success(try await self.lookUp(redis)) } catch { result = .failure(error) }
        await redis.close()
        await server.stop()
        try result.get()
    }

    private func lookUp(_ redis: RedisClient) async throws {
        let moment = PusherFixture.noon * 1000
        let key = RegistrationKey(device: try DeviceIdentifier("d"), order: try PusherFixture.order("o"))
        let record = RegistrationRecord(
            pushToken: try PushToken(PusherFixture.token(1)), registeredEpochMilliseconds: moment)
        let topics = Topics()
        let batch = PushBatch(
            [
                KafkaRecord(
                    topic: topics.registrations, partition: 0, offset: 0, timestampMilliseconds: moment,
                    key: Array(key.text.utf8), value: record.encoded)
            ], topics: topics)
        let registrations = Registrations(redis: redis)
        var lookup = PushLookup(registrations: registrations, view: nil, now: { moment + 59_999 })
        let early = try await lookup.find(batch)
        #expect(early.unsettled == [PendingPushKey(key)])
        #expect(early.found.isEmpty)
        var rest = batch
        let aside = rest.setAside { early.unsettled.contains($0) }
        #expect(rest.isEmpty)
        lookup.now = { moment + 60_000 }
        #expect(try await lookup.find(batch).unsettled.isEmpty, "its gateway has given up")
        lookup.now = { moment }
        _ = try await registrations.register(key, record)
        let settled = try await lookup.find(batch)
        #expect(settled.unsettled.isEmpty)
        #expect((settled.found + settled.registered).isEmpty, "its order did not change")
        _ = try await redis.send(
            RedisCommand(
                "HSET", .string(StoreKeys.order(key.order)), "version", "1", "modified",
                .integer(PusherFixture.noon)))
        let late = try await lookup.find(PushBatch(aside.map(\.push)))
        #expect(late.registered.map(\.device) == [key.device])
        #expect(late.unsettled.isEmpty)
    }
}
