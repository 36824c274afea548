import Model
import NIOCore
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Gateway
@testable import HTTPServer

/// Tokens of orders that were packaged under a secret other than the one with which the checkout minted them.
/// Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct TokenRotationTests {
    typealias Fixture = GatewayFixture

    /// Returns the tokens of an order under the first and the second secret of the fixture.
    private func minted(_ order: String) throws -> [String] {
        try ["the first secret of the test", "the second secret"].map {
            try TokenSecrets(file: Array($0.utf8)).token(for: Fixture.key(order)).rawValue
        }
    }

    @Test func aTokenOfAnyPresentSecretOpensAnOrderOfAnother() async throws {
        try await Fixture.with { fixture in
            let push = #"{"pushToken":"ab"}"#
            for stored in 0...1 {
                let order = "\(stored)"
                let tokens = try self.minted(order)
                try await fixture.put(order, token: tokens[stored])
                let shown = tokens[1 - stored]
                let package = try await fixture.once("GET", fixture.package(order), token: shown)
                #expect(package.status == 200)
                #expect(package.body == Fixture.package)
                let fresh = try await fixture.once(
                    "GET", fixture.package(order), token: shown, ["If-None-Match: \"tag-1\""])
                #expect(fresh.status == 304)
                let path = fixture.registration("device", order)
                #expect(try await fixture.once("POST", path, token: shown, body: push).status == 201)
                #expect(try await fixture.once("DELETE", path, token: shown).status == 200)
            }
        }
    }

    @Test func anOrderWithItsOwnTokenRefusesDerivedOnes() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            for token in try self.minted("1") {
                #expect(try await fixture.once("GET", fixture.package("1"), token: token).status == 401)
            }
            let tokens = try self.minted("2")
            try await fixture.put("2", token: tokens[0])
            let stranger = try TokenSecrets(file: Array("a secret of somebody else".utf8))
            for token in [stranger.token(for: try Fixture.key("2")).rawValue, try self.minted("1")[0]] {
                #expect(try await fixture.once("GET", fixture.package("2"), token: token).status == 401)
            }
        }
    }

    @Test func aRotatedTokenOfARemovedOrderCountsAsNoGuess() async throws {
        let limits = GatewayLimits(backoff: .init(free: 2, forgiveness: .hours(1), longest: .hours(2), clients: 64))
        try await Fixture.with(.init(limits: limits)) { fixture in
            let tokens = try self.minted("1")
            try await fixture.put("1", token: tokens[0])
            try await fixture.put("1", version: 2, token: tokens[0], isRemoved: true)
            for _ in 0..<4 {
                #expect(try await fixture.once("GET", fixture.package("1"), token: tokens[1]).status == 401)
                let path = fixture.registration("device", "1")
                #expect(try await fixture.once("DELETE", path, token: tokens[1]).status == 401)
            }
        }
    }

    /// The service runs as a process, and its secrets file changes.
    @Test func theFileIsReadAgainWithoutARestart() async throws {
        let gateway = try await GatewayProcess(reloadSeconds: 3600)
        try gateway.write(secrets: String(repeating: "0123456789abcdef", count: 4))
        gateway.hangUp()
        try await gateway.line(containing: "token secrets reloaded")
        try gateway.write(secrets: "short")
        gateway.hangUp()
        try await gateway.line(containing: "line 1: a secret must have at least 16 bytes")
        await gateway.stop()
    }
}
