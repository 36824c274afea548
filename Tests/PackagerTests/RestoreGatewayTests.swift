import Brands
import Foundation
import Model
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Packager

/// The answers of a real gateway to devices with the right tokens, while Redis is emptied and restored under load.
@Suite(.server, .timeLimit(.minutes(2))) struct RestoreGatewayTests {
    private static let count = 80

    /// A device that keeps asking, one request after the other.
    private final class Asker: Sendable {
        let name: String
        /// The number of answers with each status.
        private let statuses = Mutex<[Int: Int]>([:])
        private let isOver = Flag()

        init(_ name: String) { self.name = name }

        subscript(status: Int) -> Int { self.statuses.withLock { $0[status, default: 0] } }
        func end() { self.isOver.set() }

        /// - Parameters:
        ///   - allowed: the statuses that may occur in addition to 503 with a `Retry-After`.
        ///   - request: returns the request with a number.
        func run(
            _ port: Int, allowed: Set<Int>, _ request: (Int) throws -> String,
            _ take: (Int, RawConnection.Response) -> Void = { _, _ in }
        ) async throws {
            let connection = try await RawConnection.open(port: port)
            var number = 0
            while !self.isOver.isSet {
                let answer = try await connection.exchange(try request(number))
                if answer.status == 503 {
                    #expect(answer["retry-after"] != nil, "\(self.name)")
                } else {
                    #expect(allowed.contains(answer.status), "\(self.name): \(answer.status) \(answer.text)")
                }
                self.statuses.withLock { $0[answer.status, default: 0] += 1 }
                take(number, answer)
                number += 1
            }
            await connection.close()
        }
    }

    /// The requests of devices, by number; each order has its own devices.
    private struct Requests: Sendable {
        static let body = #"{"pushToken":"ab12"}"#
        let orders: [OrderKey]
        let tokens: TokenAuthority
        private let type = BrandFixture.orderType

        private func order(_ number: Int) -> OrderKey { self.orders[number % self.orders.count] }
        private func path(_ number: Int) -> String { "/v1/orders/\(self.type)/\(self.order(number).order)" }

        private func text(_ line: String, _ token: String?, _ more: [String] = [], body: String = "") -> String {
            let lines = ["\(line) HTTP/1.1", "Host: wallet.example.com"] + more
            return (lines + (token.map { ["Authorization: AppleOrder \($0)"] } ?? [])).joined(separator: "\r\n")
                + "\r\n\r\n" + body
        }

        func token(_ number: Int) -> String { self.tokens.token(for: self.order(number)).rawValue }
        func registration(_ device: Int) throws -> RegistrationKey {
            RegistrationKey(device: try DeviceIdentifier("device-\(device)"), order: self.order(device))
        }

        func fetch(_ number: Int, token: String? = nil, _ more: [String] = []) -> String {
            self.text("GET \(self.path(number))", token ?? self.token(number), more)
        }
        func register(_ device: Int) -> String {
            self.text(
                "POST /v1/devices/device-\(device)/registrations/\(self.type)/\(self.order(device).order)",
                self.token(device), ["Content-Length: \(Self.body.utf8.count)"], body: Self.body)
        }
        func list(_ device: Int) -> String {
            self.text("GET /v1/devices/device-\(device)/registrations/\(self.type)", nil)
        }
    }

    /// All askers, and the registrations that were confirmed to some of them.
    private struct Crowd: Sendable {
        let requests: Requests
        let fetch = Asker("fetch")
        let conditional = Asker("conditional fetch")
        let register = Asker("register")
        let list = Asker("list")
        let wrong = Asker("wrong token")
        /// Devices whose registration was confirmed.
        let told = Devices()

        final class Devices: Sendable {
            private let numbers = Mutex<Set<Int>>([])
            var all: Set<Int> { self.numbers.withLock { $0 } }
            func add(_ number: Int) { self.numbers.withLock { _ = $0.insert(number) } }
        }

        var askers: [Asker] { [self.fetch, self.conditional, self.register, self.list, self.wrong] }
        var told503: Int { self.fetch[503] + self.register[503] + self.list[503] }

        func run(_ port: Int) async throws {
            let (requests, count) = (self.requests, RestoreGatewayTests.count)
            try await withThrowingTaskGroup(of: Void.self) { asking in
                asking.addTask { try await self.fetch.run(port, allowed: [200]) { requests.fetch($0) } }
                asking.addTask {
                    try await self.conditional.run(port, allowed: [200]) {
                        requests.fetch($0, ["If-None-Match: \"none\""])
                    }
                }
                asking.addTask {
                    // Each device twice: as a new one, and again.
                    try await self.register.run(port, allowed: [200, 201]) {
                        requests.register(count + $0 / 2)
                    } _: {
                        if $1.status < 300 { self.told.add(count + $0 / 2) }
                    }
                }
                asking.addTask { try await self.list.run(port, allowed: [200]) { requests.list($0 % count) } }
                asking.addTask {
                    try await self.wrong.run(port, allowed: [401, 429]) {
                        requests.fetch($0, token: "not-the-token-of-it")
                    }
                }
                try await asking.waitForAll()
            }
        }
    }

    @Test func validRequestsGetOnlySuccessOr503DuringRestores() async throws {
        try await Fleet.run { fleet in
            let orders = try (0..<Self.count).map { try ChangeLog.key("o\($0)") }
            let crowd = Crowd(requests: Requests(orders: orders, tokens: try BrandFixture.tokens()))
            try await fleet.working(try (0..<2).map { _ in try fleet.member() }) {
                try await fleet.publish(
                    orders.map { ("order.replaced", $0.order.rawValue, "first \($0)", ChangeLog.document("1")) })
                try await fleet.settle()
                let reserved = try ReservedPort()
                defer { reserved.release() }

                let port = reserved.number
                let gateway = try fleet.child("waybill-gateway", ["WAYBILL_LISTEN": "127.0.0.1:\(port)"])
                try await gateway.line { $0.contains("listening") && $0.contains(":\(port)") }
                for device in 0..<Self.count {
                    let answer = try await RawConnection.once(port: port, crowd.requests.register(device))
                    #expect(answer.status == 201)
                }
                try await withThrowingTaskGroup(of: Void.self) { asking in
                    asking.addTask { try await crowd.run(port) }
                    for round in 0..<3 { try await self.lose(fleet, orders, round, crowd) }
                    for asker in crowd.askers { asker.end() }
                    try await asking.waitForAll()
                }
                for asker in crowd.askers { #expect(asker[503] > 0, "\(asker.name) noticed nothing") }
                #expect(crowd.wrong[401] + crowd.wrong[429] > 0)
                try await fleet.settle()
                #expect(!crowd.told.all.isEmpty)
                for device in crowd.told.all {
                    let key = try crowd.requests.registration(device)
                    #expect(try await Registrations(redis: fleet.redis).registration(key) != nil, "\(key.text)")
                }
                #expect(await gateway.stop(grace: .seconds(20)) == .code(0))
            }
        }
    }

    /// A new server replaces one that was lost. The test plays the packagers that restore it.
    @Test func restoredOrdersAreServedBeforeTheRestoreCompletes() async throws {
        try await Fleet.run { fleet in
            let orders = try (0..<2).map { try ChangeLog.key("o\($0)") }
            let requests = Requests(orders: orders, tokens: try BrandFixture.tokens())
            let store = OrderStore(redis: fleet.redis)
            let reserved = try ReservedPort()
            defer { reserved.release() }

            let port = reserved.number
            let gateway = try fleet.child("waybill-gateway", ["WAYBILL_LISTEN": "127.0.0.1:\(port)"])
            try await fleet.working([try fleet.member()]) {
                try await fleet.publish(
                    orders.map { ("order.replaced", $0.order.rawValue, "first \($0)", ChangeLog.document("1")) })
                try await fleet.settle()
                try await gateway.line { $0.contains("listening") && $0.contains(":\(port)") }
                #expect(try await RawConnection.once(port: port, requests.fetch(0)).status == 200)
            }
            let state = try #require(try await store.orders([orders[0]])[0].get()).state
            await fleet.server.kill()
            try await fleet.server.restart()

            func status(_ number: Int, token: String? = nil) async throws -> Int {
                try await RawConnection.once(port: port, requests.fetch(number, token: token)).status
            }
            #expect(try await status(0) == 503)
            let view = MaterializedView(redis: fleet.redis)
            try await eventually("begun") {
                guard let places = try? await view.look() else { return false }
                return try await view.begin("plan", seen: places) != nil
            }
            #expect(try await store.restore([.version(state, content: nil)]).written == 1)
            let brand = fleet.brandFixture.brand
            let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
            let repackager = OrderRepackager(
                topics: fleet.topics, store: store, producer: fleet.producer,
                packagers: { [brand.orderType: packager] })
            #expect(try await repackager.package(requested: [orders[0]]) == [.signed])
            try await eventually("served") { try await status(0) == 200 }
            #expect(try await status(1) == 503, "it may exist")
            #expect(try await status(1, token: "not-the-token-of-it") == 503)
            #expect(try await status(0, token: "not-the-token-of-it") == 503, "nobody counts as guessing")
            #expect(await gateway.stop(grace: .seconds(20)) == .code(0))
        }
    }

    /// Empties Redis while changes arrive, and returns when all orders are served again.
    private func lose(_ fleet: Fleet, _ orders: [OrderKey], _ round: Int, _ crowd: Crowd) async throws {
        async let load: Void = fleet.publish(
            orders.map {
                ("order.patched", $0.order.rawValue, "\(round) \($0)", ["statusDescription": .string("\(round)")])
            })
        let before = crowd.told503
        _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
        try await eventually("somebody is told to wait") { crowd.told503 > before }
        try await load
        try await eventually("complete") { try await fleet.isComplete() }
        let served = (crowd.fetch[200], crowd.list[200])
        try await eventually("served again") {
            crowd.fetch[200] > served.0 + Self.count && crowd.list[200] > served.1 + Self.count
        }
    }
}
