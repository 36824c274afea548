import Model
import NIOCore
import NIOPosix
import Redis
import TestKit

@testable import Store

let orderType = "order.com.example.shop"

/// A store on its own server.
struct StoreFixture {
    let server: RedisServer
    let redis: RedisClient
    var store: OrderStore { OrderStore(redis: self.redis) }
    var reader: PackageReader { PackageReader(redis: self.redis) }
    var registrations: Registrations { Registrations(redis: self.redis) }
    var deviceOrders: DeviceOrders { DeviceOrders(redis: self.redis, memory: self.reader.memory) }
    var loop: any EventLoop { MultiThreadedEventLoopGroup.singleton.next() }

    /// - Parameter isAlone: never on a cluster.
    static func with(isAlone: Bool = false, _ body: (StoreFixture) async throws -> Void) async throws {
        let server = try await isAlone ? RedisServer.startAlone() : RedisServer.start()
        var configuration = try RedisConfiguration(url: server.url)
        configuration.commandDeadline = .milliseconds(1500)
        let fixture = StoreFixture(
            server: server, redis: RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton))
        do {
            try await body(fixture)
        } catch {
            await fixture.redis.close()
            await server.stop()
            throw error
        }
        await fixture.redis.close()
        await server.stop()
    }

    /// Runs a command directly on Redis, past the store.
    @discardableResult
    func raw(_ words: String...) async throws -> RedisValue {
        try await self.redis.send(RedisCommand(words.map { .string($0) }))
    }

    func write(_ write: OrderStore.Write) async throws -> OrderStore.WriteOutcome { try await self.write([write])[0] }

    /// Writes as workers that have read the orders: an expected revision that is a small number is the version that
    /// they have seen.
    func write(_ writes: [OrderStore.Write]) async throws -> [OrderStore.WriteOutcome] {
        let standing = try await self.store.orders(writes.map(\.key))
        return try await self.store.write(
            zip(writes, standing).map { write, standing in
                guard (1..<1_000_000).contains(write.expectedRevision), let order = try? standing.get(),
                    let state = write.state, order.state.version == write.expectedRevision
                else { return write }
                return OrderStore.Write(state: state, after: order, content: write.content)
            })
    }

    func stamp(_ key: OrderKey) async throws -> Int64? {
        try await self.raw("HGET", StoreKeys.order(key), "stamp").integer
    }

    func changes(_ device: DeviceIdentifier, _ tag: String = "") async throws -> DeviceOrders.Changes? {
        let listing = try await self.deviceOrders.listing(
            of: device, type: try OrderTypeIdentifier(orderType), since: tag, on: self.loop
        ).get()
        guard case .changed(let changes) = listing else { return nil }
        return changes
    }
}

func key(_ order: String) throws -> OrderKey { try OrderKey("\(orderType)/\(order)") }

func registration(_ device: String, _ order: String) throws -> RegistrationKey {
    RegistrationKey(device: try DeviceIdentifier(device), order: try key(order))
}

func record(_ pushToken: String, at milliseconds: Int64 = 1_741_190_531_000) throws -> RegistrationRecord {
    RegistrationRecord(pushToken: try PushToken(pushToken), registeredEpochMilliseconds: milliseconds)
}

func state(_ order: String, version: Int64, isRemoved: Bool = false) throws -> OrderState {
    OrderState(
        key: try key(order),
        document: OrderDocument(members: isRemoved ? [:] : ["orderNumber": .string("N-\(version)")]),
        token: try AuthenticationToken("0123456789abcdef"), version: version,
        modifiedEpochSeconds: 1_741_190_531 + version, isRemoved: isRemoved)
}

let somePackage = OrderStore.StoredPackage(
    assets: ["aa", "bb"], head: Array(0...255), certificates: "certificates", tail: [13, 10, 0, 255], entityTag: "e1")

func version(_ order: String, _ number: Int64, expecting expected: Int64? = nil) throws -> OrderStore.Write {
    OrderStore.Write(
        state: try state(order, version: number), revision: expected ?? number - 1,
        content: .version(somePackage))
}

func removal(_ order: String, _ number: Int64) throws -> OrderStore.Write {
    OrderStore.Write(
        state: try state(order, version: number, isRemoved: true), revision: number - 1, content: .removal)
}
