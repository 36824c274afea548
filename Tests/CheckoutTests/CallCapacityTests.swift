import Fetch
import Logging
import Model
import NIOCore
import TestKit
import TestTraits
import Testing

@testable import Checkout

@Suite struct SharesTests {
    @Test func aTenantTakesHalfAndAlwaysLeavesRoomForAnother() {
        var shares = Shares<String>(limit: 100)
        func take(_ tenant: String) -> Int {
            var count = 0
            while shares.take(tenant) { count += 1 }
            return count
        }
        #expect(take("a") == 50)
        #expect(take("b") == 25)
        #expect(take("c") == 13)
        for _ in 0..<50 { shares.give("a") }
        #expect(take("b") == 19, "44 of the 87 that c leaves")
        shares.give("nobody")
        #expect(shares.take("a") == true)
    }

    @Test func placesAreTakenTogetherOrNotAtAll() {
        var shares = Shares<String>(limit: 128)
        #expect(shares.take("a", 32) == true)
        #expect(shares.take("a", 32) == true)
        #expect(shares.hasRoom("a") == false, "it has half")
        #expect(shares.take("b", 33) == false, "it would leave less than it has")
        #expect(shares.take("b", 28) == true)
        shares.give("a", 32)
        #expect(shares.take("a", 4) == true, "as it has less than are free")
        shares.give("a", 32)
        shares.give("a", 4)
        shares.give("b", 28)
        #expect(shares.take("c", 64) == true)
        #expect(shares.take("c") == false)
    }

    @Test func oneShopThatTakesLongHasRoomForAHundredPaymentsASecond() {
        var shares = Shares<String>(limit: CallCapacity.Kind.money.limit)
        var taken = 0
        while shares.take("a") { taken += 1 }
        #expect(taken >= 100 * 24)
    }

    @Test func aServiceIsLeftAloneAfterTimeoutsInARow() {
        var breaker = CallBreaker()
        let start = NIODeadline.uptimeNanoseconds(1 << 40)
        for _ in 0..<2 {
            for _ in 1..<CallBreaker.limit { _ = breaker.ended(inTime: false, at: start) }
            #expect(breaker.ended(inTime: true, at: start) == false, "an answer in between")
        }
        #expect(breaker.isClear)
        for _ in 1..<CallBreaker.limit { _ = breaker.ended(inTime: false, at: start) }
        #expect(breaker.admits(at: start) == true)
        #expect(breaker.ended(inTime: false, at: start) == true)
        let (before, after) = (start + CallBreaker.pause - .nanoseconds(1), start + CallBreaker.pause)
        #expect(breaker.admits(at: before) == false)
        #expect(breaker.admits(at: after) == true)
        #expect(breaker.admits(at: after) == false, "one at a time")
        #expect(breaker.ended(inTime: false, at: after) == true)
        #expect(breaker.admits(at: after + CallBreaker.pause - .nanoseconds(1)) == false)
        #expect(breaker.admits(at: after + CallBreaker.pause) == true)
        #expect(breaker.ended(inTime: true, at: after + CallBreaker.pause) == false)
        #expect(breaker.admits(at: after + CallBreaker.pause) == true)
    }
}

/// Calls to a shop that accepts and never answers, beside those of another one.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct CallCapacityTests {
    private static func request(_ shop: ShopServer, _ path: String, _ timeout: Duration) -> FetchRequest {
        var request = FetchRequest(url: shop.url + path) { _ in true }
        request.addresses = Upstream.policy(["127.0.0.1"])
        request.rootsPEM = shop.rootPEM
        request.timeout = timeout
        return request
    }

    private static func with(_ body: (ShopServer, Fetcher, LogJournal) async throws -> Void) async throws {
        let shop = try await ShopServer.start()
        let result: Result<Void, any Error>
        do {
            var configuration = FetcherConfiguration()
            configuration.concurrency = 64
            let fetcher = try Fetcher(configuration)
            try shop.answer("/hung", -1, "")
            try shop.answer("/good", 200, "{}")
            result = .success(try await body(shop, fetcher, LogJournal()))
            await fetcher.close()
        } catch { result = .failure(error) }
        await shop.stop()
        try result.get()
    }

    @Test func aShopThatHangsTakesNoPlaceOfAnother() async throws {
        try await Self.with { shop, fetcher, journal in
            let calls = CallCapacity(
                fetcher: fetcher, limit: { _ in 8 }, logger: Logger(label: "calls") { _ in journal })
            func call(_ path: String, _ kind: CallCapacity.Kind, _ merchant: String) async -> CheckoutFailure.Code? {
                do throws(CheckoutFailure) {
                    _ = try await calls.exchange(
                        Self.request(shop, path, .seconds(20)), kind, of: merchant, at: "\(merchant)\(path)")
                    return nil
                } catch { return error.code }
            }
            try await withThrowingTaskGroup(of: CheckoutFailure.Code?.self) { group in
                for _ in 0..<8 { group.addTask { await call("/hung", .lookup, "a") } }
                // Half of the places are taken, and the others are refused at once.
                for _ in 0..<4 { #expect(try await group.next() == .unavailable) }
                try await eventually("four calls at the shop") { shop.seen.count { $0.path == "/hung" } == 4 }
                #expect(await call("/good", .lookup, "a") == .unavailable)
                #expect(await call("/good", .lookup, "b") == nil)
                #expect(await call("/good", .money, "a") == nil, "payments have their own places")
                for _ in 0..<4 { group.addTask { await call("/hung", .money, "a") } }
                try await eventually("four payments at the shop") { shop.seen.count { $0.path == "/hung" } == 8 }
                #expect(await call("/good", .money, "a") == .upstreamUnavailable, "nobody was charged")
                await fetcher.close()
                for try await code in group { #expect(code == .outcomeUnknown) }
            }
            #expect(await call("/good", .lookup, "b") == .upstreamUnavailable)
        }
    }

    @Test func aShopThatHangsIsLeftAlone() async throws {
        try await Self.with { shop, fetcher, journal in
            let calls = CallCapacity(fetcher: fetcher, logger: Logger(label: "calls") { _ in journal })
            func call(_ path: String, at service: String) async -> CheckoutFailure? {
                do throws(CheckoutFailure) {
                    _ = try await calls.exchange(
                        Self.request(shop, path, .seconds(3)), .lookup, of: "a", at: service)
                    return nil
                } catch { return error }
            }
            let codes = await withTaskGroup(of: CheckoutFailure.Code?.self) { group in
                for _ in 0..<CallBreaker.limit { group.addTask { await call("/hung", at: "hung")?.code } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes == Array(repeating: .outcomeUnknown, count: CallBreaker.limit))
            let refused = await call("/good", at: "hung")
            #expect(refused?.code == .unavailable)
            #expect(refused?.mayHaveActed == false)
            #expect(refused?.headers["retry-after"] != nil)
            #expect(await call("/good", at: "another") == nil)
            #expect(journal.lines.count { $0.message.contains("left alone") } == 1)
            try await eventually("an answer after the pause") { await call("/good", at: "hung") == nil }
        }
    }
}
