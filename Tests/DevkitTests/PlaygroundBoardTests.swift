import Model
import TestKit
import Testing

@testable import Devkit

/// The sessions of the playground, without a page.
@Suite struct PlaygroundBoardTests {
    private static func device() throws -> PlaygroundDevice {
        let http = try HTTPClient()
        let wallet = WalletDevice(
            gateway: "http://127.0.0.1:1", orderType: try OrderTypeIdentifier("order.com.example.waybill"), http: http,
            verifier: try PackageVerifier(rootsPEM: PackageStage.shared.get().pem["root"] ?? []))
        return PlaygroundDevice(
            wallet: wallet, journal: APNSJournal(admin: "http://127.0.0.1:1", http: http), note: { _ in })
    }

    @Test func theSessionThatWasIdleLongestEndsForANewOneWithItsOrders() throws {
        let board = PlaygroundBoard()
        let names = (0..<PlaygroundBoard.sessionLimit).map { "session-\($0)" }
        for name in names { #expect(board.open(name, device: try Self.device()) == []) }
        let identifier = try #require(board.nextIdentifier(of: names[1], at: 0))
        #expect(board.add(PlaygroundBoard.Order(identifier: identifier, isReceipt: false, document: [:]), to: names[1]))
        #expect(board.touch(names[0]))

        #expect(board.open("newcomer", device: try Self.device()) == [identifier], "its orders are to be removed")
        #expect(!board.touch(names[1]))
        #expect(board.order(identifier, of: names[1]) == nil)
        #expect(board.touch(names[0]))
        #expect(board.touch("newcomer"))
        #expect(board.closeAll() == [])
        #expect(!board.touch("newcomer"))
    }

    @Test func anOrderThatWasRemovedIsNotRemovedAgain() throws {
        let board = PlaygroundBoard()
        #expect(board.open("session", device: try Self.device()) == [])
        for index in 0..<2 {
            let identifier = try #require(board.nextIdentifier(of: "session", at: index))
            #expect(!board.add(.init(identifier: "another", isReceipt: false, document: [:]), to: "session"))
            #expect(board.add(.init(identifier: identifier, isReceipt: false, document: [:]), to: "session"))
            #expect(!board.add(.init(identifier: identifier, isReceipt: false, document: [:]), to: "session"))
            if index == 0 { board.change(identifier) { $0.isRemoved = true } }
        }
        let left = board.orders(of: "session").filter { !$0.isRemoved }.map(\.identifier)
        #expect(left.count == 1)
        #expect(board.close("session") == left)
    }
}
