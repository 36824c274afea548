import Model
import TestKit
import Testing

@testable import Devkit

/// The sessions of the playground, without a page.
@Suite struct PlaygroundSessionsTests {
    private static func device() throws -> PlaygroundDevice {
        let http = try HTTPClient(deadline: .answer)
        let wallet = WalletDevice(
            gateway: "http://127.0.0.1:1", orderType: try OrderTypeIdentifier("order.com.example.waybill"), http: http,
            verifier: try PackageVerifier(rootsPEM: PackageFixture.shared.get().pem["root"] ?? []))
        return PlaygroundDevice(
            wallet: wallet, journal: APNSJournal(admin: "http://127.0.0.1:1", http: http), note: { _ in })
    }

    @Test func aNewSessionReplacesTheLongestIdleOneAndItsOrders() throws {
        let sessions = PlaygroundSessions()
        let names = (0..<PlaygroundSessions.sessionLimit).map { "session-\($0)" }
        for name in names { #expect(sessions.open(name, device: try Self.device()) == []) }
        let identifier = try #require(sessions.nextIdentifier(of: names[1], at: 0))
        #expect(
            sessions.add(
                PlaygroundSessions.Order(identifier: identifier, isReceipt: false, document: [:]), to: names[1]))
        #expect(sessions.touch(names[0]))

        #expect(sessions.open("newcomer", device: try Self.device()) == [identifier], "its orders are to be removed")
        #expect(!sessions.touch(names[1]))
        #expect(sessions.order(identifier, of: names[1]) == nil)
        #expect(sessions.touch(names[0]))
        #expect(sessions.touch("newcomer"))
        #expect(sessions.closeAll() == [])
        #expect(!sessions.touch("newcomer"))
    }

    @Test func anOrderThatWasRemovedIsNotRemovedAgain() throws {
        let sessions = PlaygroundSessions()
        #expect(sessions.open("session", device: try Self.device()) == [])
        for index in 0..<2 {
            let identifier = try #require(sessions.nextIdentifier(of: "session", at: index))
            #expect(!sessions.add(.init(identifier: "another", isReceipt: false, document: [:]), to: "session"))
            #expect(sessions.add(.init(identifier: identifier, isReceipt: false, document: [:]), to: "session"))
            #expect(!sessions.add(.init(identifier: identifier, isReceipt: false, document: [:]), to: "session"))
            if index == 0 { sessions.change(identifier) { $0.isRemoved = true } }
        }
        let left = sessions.orders(of: "session").filter { !$0.isRemoved }.map(\.identifier)
        #expect(left.count == 1)
        #expect(sessions.close("session") == left)
    }
}
