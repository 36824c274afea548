import Model
import NIOCore
import NIOPosix
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Every script and every reader once, with keys on several servers and a user that may do no more than needed.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct ClusterStoreTests {
    /// The user of `Shared/Redis/README.md`.
    static let rights = [
        "on", ">secret", "~waybill:*", "-@all", "+asking", "+bzpopmin", "+cluster|slots", "+del", "+eval",
        "+evalsha", "+exists", "+expire", "+get", "+hdel", "+hexists", "+hget", "+hgetall", "+hlen", "+hmget", "+hscan",
        "+hset", "+info",
        "+ping", "+sadd", "+scan", "+scard", "+script|load", "+select", "+set", "+sismember", "+smembers", "+srem",
        "+strlen", "+time", "+type", "+wait", "+zadd", "+zcard", "+zpopmin", "+zrangebyscore", "+zrem",
        "+zremrangebyrank", "+zscore",
    ]

    @Test func theStoreWorksOnACluster() async throws {
        let cluster = try await RedisCluster.start()
        try await self.withFixture(RedisConfiguration(url: cluster.url), cluster.masters[0]) { fixture in
            try await self.goThroughEverything(fixture)
            for master in cluster.masters {
                #expect(try await Int(master.command("dbsize")) ?? 0 > 10, "keys lie on all masters")
            }
        }
        await cluster.stop()
    }

    @Test(arguments: [(true, false), (true, true), (false, false), (false, true)])
    func theStoreWorksWithMinimalPermissions(isCluster: Bool, isEncrypted: Bool) async throws {
        let servers: [RedisServer]
        let url: (address: String, certificate: ServerCertificate?)
        if isCluster {
            let cluster = try await RedisCluster.start(isEncrypted: isEncrypted)
            servers = cluster.masters
            url = isEncrypted ? (cluster.tlsAddress, cluster.certificate) : ("127.0.0.1:\(servers[0].port)", nil)
        } else if isEncrypted {
            let (certificate, port) = (try await ServerCertificate(), try ReservedPort())
            let arguments = certificate.redisArguments(port: port.number)
            servers = [try await RedisServer.startAlone(arguments, keeping: [port])]
            url = ("localhost:\(port.number)", certificate)
        } else {
            servers = [try await RedisServer.startAlone()]
            url = ("127.0.0.1:\(servers[0].port)", nil)
        }
        for server in servers { try await server.command(["acl", "setuser", "waybill"] + Self.rights) }
        let configuration = try RedisConfiguration(
            url: "\(isEncrypted ? "rediss" : "redis")://waybill:secret@\(url.address)", caFile: url.certificate?.file)
        try await self.withFixture(configuration, servers[0]) { fixture in
            try await self.goThroughEverything(fixture)
            for server in servers {
                // A refused command may have been replaced by others, or its answer counted as zero.
                #expect(try await server.command("acl", "log") == "", "Redis refused a command")
            }
            let error = await #expect(throws: RedisError.self) { _ = try await fixture.raw("GET", "other") }
            #expect(error?.serverPrefix == "NOPERM")
        }
        for server in servers { await server.stop() }
    }

    private func withFixture(
        _ configuration: RedisConfiguration, _ server: RedisServer, _ body: (StoreFixture) async throws -> Void
    ) async throws {
        let redis = RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        do { try await body(StoreFixture(server: server, redis: redis)) } catch {
            await redis.close()
            throw error
        }
        await redis.close()
    }

    private func goThroughEverything(_ fixture: StoreFixture) async throws {
        try await self.orders(fixture)
        try await self.registrations(fixture)
        try await self.pictures(fixture)
        try await self.view(fixture)
    }

    private func orders(_ fixture: StoreFixture) async throws {
        let names = (0..<100).map { "o\($0)" }
        #expect(try await fixture.store.write(names.map { try version($0, 1) }).allSatisfy { $0 == .written })
        #expect(try await fixture.store.write(names.map { try version($0, 1) }).allSatisfy { $0 == .conflict })
        let stored = try await fixture.store.orders(names.map { try key($0) })
        #expect(try stored.map { try $0.get()?.state.key.order.rawValue } == names)
        let unpublished = OrderStore.Write(
            state: try state("o1", version: 2), revision: 1, content: .unpublishedVersion(somePackage))
        #expect(try await fixture.write(unpublished) == .written)
        let acknowledged = OrderStore.Publication(try state("o1", version: 2), record: nil)
        #expect(try await fixture.store.acknowledge([("2", acknowledged)]) == [2])
        let settled = try #require(try await fixture.store.orders([key("o1")])[0].get())
        #expect(settled.unpublished == "")
        #expect(settled.isPublished)
        #expect(
            try await fixture.store.notePublished(
                [("o2", 7, true), ("o3", 1, true), ("o4", 1, false)].map {
                    .init(try state($0, version: $1), record: nil, isAnnounced: $2)
                }) == [1, 1, 1])
        let published = try await fixture.store.orders([key("o2"), key("o3"), key("o4")]).map {
            try $0.get()?.isPublished
        }
        #expect(published == [false, true, false])
        #expect(try await fixture.write(removal("o2", 2)) == .written)
        #expect(try await fixture.reader.lookup(of: key("o2"), on: fixture.loop).get().isRemoved)
        #expect(try await fixture.reader.spans(of: key("o1"), on: fixture.loop).get()?.head.readableBytes == 256)
        let assets = (0..<20).map { (digest: "digest-\($0)", entry: [UInt8($0)]) }
        for _ in 0..<2 { try await fixture.store.putAssets(assets) }
        let read = try await fixture.reader.assets(assets.map(\.digest), of: key("o1"), on: fixture.loop).get()
        #expect(try read.map { Array(try $0.get().readableBytesView) } == assets.map(\.entry))
        let scan = OrderScan(redis: fixture.redis)
        let type = try OrderTypeIdentifier(orderType)
        var (seen, cursor): (Set<String>, String?) = ([], nil)
        repeat {
            let page = try await scan.page(of: type, from: cursor)
            seen.formUnion(page.orders.map(\.order.rawValue))
            cursor = page.next
            #expect(cursor.map(OrderScan.isCursor) ?? true)
        } while cursor != nil
        #expect(seen == Set(names))
        #expect(try await !scan.serverIdentifier().isEmpty)
        #expect(try await scan.serverIdentifier() == scan.serverIdentifier())
        try await scan.keep([1], of: type)
        #expect(try await scan.bookmark(of: type) == [1])
        try await scan.forget(type)
        #expect(try await scan.bookmark(of: type) == nil)
    }

    private func registrations(_ fixture: StoreFixture) async throws {
        let device = try DeviceIdentifier("device")
        for number in 10..<40 {
            let key = try registration("device", "o\(number)")
            #expect(try await fixture.registrations.register(key, record("aa")) == .new)
            #expect(try await fixture.registrations.register(key, record("bb", at: 1_741_190_531_002)) == .renewed)
        }
        let changes = try #require(try await fixture.changes(device))
        #expect(changes.orders.count == 30)
        #expect(try await fixture.write(version("o20", 2)) == .written)
        #expect(try await fixture.changes(device, changes.tag)?.orders.map(\.rawValue).contains("o20") == true)
        try await fixture.registrations.unregister(
            registration("device", "o11"), at: RegistrationStamp(offset: 5, epochMilliseconds: 1_741_190_531_005))
        let gone = try await fixture.registrations.retire(
            registration("device", "o12"), record("bb", at: 1_741_190_531_002))
        #expect(gone)
        let left = try await fixture.registrations.orders(of: device, type: OrderTypeIdentifier(orderType))
        #expect(left.count == 28)
        let devices = try await fixture.registrations.devices(of: (10..<40).map { try key("o\($0)") })
        #expect(devices.map(\.count).reduce(0, +) == 28)
        #expect(try await fixture.registrations.modified([key("o20"), key("o2")])[1] == nil)
    }

    private func pictures(_ fixture: StoreFixture) async throws {
        let pictures = Pictures(redis: fixture.redis)
        let picture = PictureKey(orderType: try OrderTypeIdentifier(orderType), url: "https://cdn.example/a.png")
        let waiting = Pictures.Waiting(order: try key("o1"), version: 1, sinceEpochSeconds: 7)
        #expect(try await pictures.addWaiting([picture: [waiting]]) == 0)
        var claim = try #require(try await pictures.claim(5, lease: .seconds(60)).claims.first)
        #expect(try await pictures.postpone(&claim, by: .seconds(60)))
        #expect(try await pictures.waiting(for: picture, from: "0").orders == [waiting])
        try await pictures.removeWaiting([waiting], for: picture)
        try await pictures.finish(claim, dismissing: false, otherwiseAgainAfter: .seconds(1))
        #expect(try await pictures.claim(5, lease: .seconds(60)).total == 0)
        #expect(try await pictures.records([picture]) == [nil])
        try await pictures.save(PictureRecord(), for: picture)
        #expect(try await pictures.records([picture]).count == 1)
    }

    private func view(_ fixture: StoreFixture) async throws {
        let view = MaterializedView(redis: fixture.redis)
        let hashTags = try await fixture.redis.hashTags()
        let shards = try await view.look()
        #expect(shards.count == max(1, hashTags.count))
        #expect(shards.allSatisfy { $0.epoch == nil })
        #expect(Set(shards.compactMap(\.hashTag)) == Set(hashTags))
        let watch = ViewEpochCache(view)
        await #expect(throws: StoreError.self) { _ = try await watch.known() }
        let plan = try #require(try await view.begin("plan", seen: shards))
        let board = RestoreJobQueue(view)
        try await board.note([RestoreJobQueue.Job(name: "t/0", from: 0, to: 9)], of: plan)
        guard case .job(var job) = try await board.claim(of: plan, by: "me", lease: .seconds(60)) else {
            Issue.record("nobody has the job")
            return
        }
        (job.done, job.isDone) = (9, true)
        #expect(try await board.keep(job, of: plan, by: "me", lease: .seconds(60)))
        #expect(try await view.complete(plan, epoch: "e", tails: ["t/0": 9]))
        try await board.forget(plan)
        let epochs = try await watch.known()
        try await watch.confirm(epochs)
        let store = OrderStore(redis: fixture.redis, view: watch)
        #expect(try await store.orders([key("o1"), key("never")])[1].get() == nil)
        let stranger = try DeviceIdentifier("stranger")
        let lists = fixture.deviceOrders
        // Twice: the brief form is used only if the view was looked at just now.
        for _ in 0..<2 {
            let list = try await lists.listing(
                of: stranger, type: OrderTypeIdentifier(orderType), since: "", isBrief: true, on: fixture.loop
            ).get()
            #expect(list == .unknown)
        }
        #expect(try await AssetSweep(watch).run {}.bytes >= 20)
        let whole = try await view.look()
        #expect(whole.allSatisfy { $0.isHere && $0.tails == ["t/0": 9] })
        try await view.keep(tails: ["t/0": 12], in: whole)
        try await view.confirm(whole, epoch: "f")
        #expect(try await view.markSlots(of: try await view.look()))
        #expect(try await view.confirmMoved(try await view.look(), epoch: "g") == .refused, "nothing moved")
        // One master that lost its data is enough.
        let lost = StoreKeys.epoch(hashTags.sorted().first)
        _ = try await fixture.raw("DEL", lost)
        await #expect(throws: StoreError.self) { _ = try await store.orders([key("o1")]) }
    }
}
