import Fetch
import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

@Suite struct IdleConnectionsTests {
    let idle = IdleConnections(limit: .seconds(75), grace: .seconds(1))
    let now = NIODeadline.now() + .hours(1)

    func candidate(_ address: UInt32?, idle seconds: Double?) -> IdleConnections.Candidate {
        .init(
            client: address.map { ClientAddress(IPAddress(version4: $0)) },
            idleSince: seconds.map { self.now - .milliseconds(Int64($0 * 1000)) })
    }

    func givingWay(_ candidates: [IdleConnections.Candidate], total: Int, perAddress: Int = 1000) -> [Int] {
        let limits = ConnectionLimits(total: total, perAddress: perAddress)
        return self.idle.givingWay(among: candidates, limits: limits, at: self.now)
    }

    @Test func theIdleAllowanceShrinksAsConnectionsFillUp() {
        for fullness in [0, 0.3, 0.5] { #expect(self.idle.allowance(fullness: fullness) == .seconds(75)) }
        var last = TimeAmount.seconds(76)
        for fullness in [0.5, 0.6, 0.75, 0.9, 0.99] {
            let allowance = self.idle.allowance(fullness: fullness)
            #expect(allowance < last)
            #expect(allowance >= .seconds(1))
            last = allowance
        }
        #expect(self.idle.allowance(fullness: 0.75) == .milliseconds(37_500))
        #expect(self.idle.allowance(fullness: 1) == .seconds(1))
        #expect(self.idle.allowance(fullness: 1.5) == .seconds(1))
    }

    @Test func theLongestIdleConnectionsCloseUntilThereIsRoom() {
        // All twenty slots are taken by connections idle for a moment: two have to close.
        let candidates = (0..<20).map { self.candidate(UInt32($0) << 8, idle: 2 + Double(($0 + 7) % 20) / 10) }
        #expect(self.givingWay(candidates, total: 20) == [12, 11])
    }

    @Test func aBusyOrNewConnectionStays() {
        let candidates = (0..<20).map { self.candidate(UInt32($0) << 8, idle: $0 < 15 ? nil : 0) }
        #expect(self.givingWay(candidates, total: 20) == [])
        let one = candidates.dropLast() + [self.candidate(1, idle: 60)]
        #expect(self.givingWay(Array(one), total: 20) == [19])
    }

    @Test func idleConnectionsCloseOnlyWhenSlotsAreScarce() {
        let candidates = (0..<20).map { self.candidate(UInt32($0) << 8, idle: 74) }
        #expect(self.givingWay(candidates, total: 40) == [])
        // With about three quarters of the slots taken, half the time is left; closing connections extends it again.
        #expect(
            self.givingWay(candidates.map { .init(client: $0.client, idleSince: self.now - .seconds(50)) }, total: 26)
                .count == 3)
    }

    @Test func aCrowdedAddressOrNetworkClosesOnlyItsConnections() {
        // One address has all of its ten connections; the others have one each, idle for longer.
        let crowd = (0..<10).map { _ in self.candidate(1, idle: 5) }
        let others = (0..<10).map { self.candidate(UInt32($0 + 1) << 16, idle: 60) }
        #expect(self.givingWay(others + crowd, total: 1000, perAddress: 10) == [10])
        // The same for the addresses of one network, which may have forty.
        let network = (0..<40).map { self.candidate(UInt32($0), idle: 5) }
        #expect(self.givingWay(others + network, total: 1000, perAddress: 10) == [10, 11, 12, 13])
    }

    @Test func proxyConnectionsCountOnlyTowardTheTotal() {
        let candidates = (0..<10).map { _ in self.candidate(nil, idle: 5) }
        #expect(self.givingWay(candidates, total: 1000, perAddress: 5) == [])
        #expect(self.givingWay(candidates, total: 10) == [0])
    }

    @Test func twentyAddressesThatHoldAllSlotsMakeRoom() {
        let candidates = (0..<20_000).map { self.candidate(UInt32($0 % 20) << 16, idle: Double($0 / 1000) + 2) }
        let leaving = self.givingWay(candidates, total: 20_000)
        #expect(leaving.count >= 2_000)
        #expect(leaving.first.map { $0 >= 19_000 } == true)
    }
}

/// Connections without a request, and new clients that need a slot.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct AbuseIdleTests {
    typealias Fixture = ServerFixture

    static func crowded(_ options: Fixture.Options, total: Int) -> Fixture.Options {
        var options = options
        options.holding.time = .seconds(60)
        let edge = options.edge
        options.edge = {
            edge(&$0)
            $0.limits = ConnectionLimits(total: total)
            $0.idleGrace = .milliseconds(20)
        }
        return options
    }

    @Test func idleConnectionsGiveWayToNewOnes() async throws {
        try await Fixture.with(Self.crowded(.init(), total: 10)) { fixture in
            let token = try fixture.derived("1")
            let held = try await RawConnection.open(port: fixture.port)
            try await held.send(fixture.request("GET", fixture.package("1"), token: token))
            // One connection has begun a request; it counts as idle until the request is complete.
            let slow = try await RawConnection.open(port: fixture.port)
            try await slow.send("GET /nothing HTTP/1.1\r\nHo")
            var idle: [RawConnection] = []
            for _ in 0..<8 {
                idle.append(try await RawConnection.open(port: fixture.port))
                #expect(try await idle[idle.count - 1].exchange(fixture.request("GET", "/nothing")).status == 404)
            }
            // More clients than there are slots connect, send a request, and stay.
            for number in 0..<12 {
                let deadline = ContinuousClock.now + .seconds(10)
                while true {
                    let connection = try await RawConnection.open(port: fixture.port)
                    if let answer = try? await connection.exchange(fixture.request("GET", "/nothing")) {
                        #expect(answer.status == 404)
                        idle.append(connection)
                        break
                    }
                    await connection.close()
                    try #require(ContinuousClock.now < deadline, "newcomer \(number) is not let in")
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            #expect(try await slow.isClosedByServer())
            for connection in idle[..<8] { #expect(try await connection.isClosedByServer()) }
            try await fixture.put("1", token: token)
            #expect(try await held.response().body == Fixture.package, "who has a request stays")
            #expect(!fixture.metricsText.contains("waybill_connections_gave_way_total 0\n"))
            for connection in idle + [held, slow] { await connection.close() }
        }
    }

    @Test func idleHTTP2ConnectionsGetGoAwayWhenSlotsRunOut() async throws {
        try await Fixture.with(Self.crowded(try TLSSupport.options(), total: 10)) { fixture in
            let token = try fixture.derived("1")
            try await fixture.http2 { held in
                try await held.connection.send(
                    try held.request(1, HTTP2Wire.fields("GET", fixture.package("1"), token: token)))
                try await fixture.http2 { idle in
                    #expect(try await idle.exchange(1, HTTP2Wire.fields("GET", "/nothing")).status == 404)
                    var others: [RawConnection] = []
                    for _ in 0..<8 {
                        // Handshakes that are never finished hold a slot as well.
                        others.append(try await RawConnection.open(port: fixture.port))
                    }
                    let deadline = ContinuousClock.now + .seconds(10)
                    while !fixture.metricsText.contains("waybill_connections_gave_way_total 2\n"), deadline > .now {
                        others.append(try await RawConnection.open(port: fixture.port))
                        try await Task.sleep(for: .milliseconds(50))
                    }
                    #expect(try await idle.frame(HTTP2Wire.goAway).errorCode == 0)
                    while !idle.connection.hasEnded, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
                    #expect(idle.connection.hasEnded)
                    #expect(try await others[0].isClosedByServer())
                    for connection in others { await connection.close() }
                }
                try await fixture.put("1", token: token)
                #expect(try await held.response(1).body == Fixture.package, "who has a request stays")
            }
        }
    }
}
