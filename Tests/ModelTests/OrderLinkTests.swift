import TestKit
import Testing

@testable import Model

/// Receipts, labels and pictures by URL in changes: refused if they can never be fetched, kept if they are no news.
@Suite struct OrderLinkTests {
    private static let allowed = "https://receipts.example.com/"

    /// Returns the fold of a brand that allows one host and ignores queries.
    private func fold() throws -> OrderFold {
        var rules = try Examples.rules(try Examples.order(3))
        rules.linkFault = { $0.hasPrefix(Self.allowed) ? nil : "must be a URL of another host" }
        rules.linkIdentity = { url, isPicture in "\(isPicture) \(url.prefix { $0 != "?" })" }
        return Examples.fold(rules)
    }

    private func change(_ kind: OrderChange.Kind, _ id: String = "new") throws -> OrderChange {
        OrderChange(key: try Examples.key(try Examples.order(3)), source: "/oms", id: id, kind: kind)
    }

    /// Returns the third example with a receipt and a label, as a publisher sends it.
    private func document(_ receipt: String, _ label: String = "label.pdf") throws -> JSONObject {
        let order = try Examples.order(3).setting(.string(receipt), "payment.transactions.0.receipt")
            .setting(.string(label), "returns.0.returnLabel")
        return try #require(order.object)
    }

    private func outcome(_ kind: OrderChange.Kind, after state: OrderState? = nil) throws -> ChangeOutcome? {
        try self.fold().fold(state, changes: [(.at(99), try self.change(kind))], nowEpochSeconds: Examples.now)
            .outcomes.first
    }

    private func state(_ receipt: String) throws -> OrderState {
        let kind = OrderChange.Kind.replaced(OrderDocument(members: try self.document(receipt)))
        let result = try self.fold().fold(
            nil, changes: [(.at(1), try self.change(kind, "first"))], nowEpochSeconds: Examples.now)
        return try #require(result.state)
    }

    @Test(arguments: ["https://other.example.com/1.pdf?key=secret", "http://receipts.example.com/1.pdf?key=secret"])
    func aURLThatCanNeverBeFetchedIsRefusedInEachKindOfChange(_ url: String) throws {
        let state = try self.state("receipt.pdf")
        let identifier = try #require(
            state.document.members["returns"]?.array?.first?.object?["returnIdentifier"]?.string)
        let element: JSONObject = ["returnIdentifier": .string(identifier), "returnLabel": .string(url)]
        let receipt = try self.document(url)
        let kinds: [(OrderChange.Kind, OrderState?)] = [
            (.replaced(OrderDocument(members: receipt)), nil), (.replaced(OrderDocument(members: receipt)), state),
            (.merged(receipt, owns: nil), state), (.patched(["returns": [.object(element)]]), state),
            (.returnUpdated(identifier: identifier, element), state),
        ]
        for (kind, state) in kinds {
            guard case .refused(let fault)? = try self.outcome(kind, after: state) else {
                Issue.record("\(kind) is taken")
                continue
            }
            #expect(fault.code == .invalidOrder)
            #expect(fault.reason.contains(".receipt") || fault.reason.contains(".returnLabel"))
            #expect(!fault.reason.contains("secret"), "a signature is no one's business")
        }
        // Before an order exists, and from a source, too.
        let merged = try self.change(.merged(["returns": [.object(element)]], owns: nil))
        #expect(try self.fold().fault(of: merged, nowEpochSeconds: Examples.now)?.code == .invalidOrder)
        let early = try self.outcome(.merged(["returns": [.object(element)]], owns: nil))
        #expect(early.map { if case .refused(let fault) = $0 { fault.code == .invalidOrder } else { false } } == true)
        #expect(
            try self.fold().violations(
                in: OrderDocument(members: receipt), of: try Examples.key(try Examples.order(3)),
                nowEpochSeconds: Examples.now
            ).map(\.path).contains("$.payment.transactions[0].receipt"))
    }

    /// A brand may drop a host while orders have its URLs.
    @Test func aURLThatAnOrderHasAlreadyRefusesNoOtherChange() throws {
        var state = try self.state("\(Self.allowed)1.pdf")
        state.document = OrderDocument(members: try self.document("https://dropped.example.com/1.pdf"))
        #expect(try self.outcome(.patched(["orderNumber": "2"]), after: state) == .applied)
    }

    /// A record of a source loses the member, and nothing else.
    @Test func aSourcesURLThatCanNeverBeFetchedIsLeftOut() throws {
        let document = OrderDocument(members: try self.document("https://other.example.com/1.pdf"))
        let (change, omitted) = try self.fold().tolerating(
            try self.change(.replaced(document)), nowEpochSeconds: Examples.now)
        #expect(omitted.map(\.name) == ["payment.transactions.receipt"])
        #expect(change.sent?["returns"] == document.members["returns"])
        #expect(try self.outcome(change.kind) == .applied)
    }

    @Test func aNewSignatureAloneIsNoNews() throws {
        let (old, new) = ("\(Self.allowed)1.pdf?Signature=1", "\(Self.allowed)1.pdf?Signature=2")
        let state = try self.state(old)
        for kind in [
            OrderChange.Kind.replaced(OrderDocument(members: try self.document(new))),
            .patched(["payment": try #require(try self.document(new)["payment"])]),
        ] {
            let result = try self.fold().fold(
                state, changes: [(.at(99), try self.change(kind))], nowEpochSeconds: Examples.now)
            #expect(result.outcomes == [.unchanged])
            #expect(result.effect == .advanced)
            #expect(result.renewedLinks == [old: new])
        }
        // With other news the order keeps its URL.
        var document = try self.document(new)
        document["orderNumber"] = "2"
        let kind = OrderChange.Kind.replaced(OrderDocument(members: document))
        let result = try self.fold().fold(
            state, changes: [(.at(99), try self.change(kind))], nowEpochSeconds: Examples.now)
        #expect(result.effect == .changed)
        #expect(result.state?.document.members["payment"] == state.document.members["payment"])
        // Another document, and the same URL as a picture, are news.
        let other = try self.outcome(
            .replaced(OrderDocument(members: try self.document("\(Self.allowed)2.pdf?Signature=1"))), after: state)
        #expect(other == .applied)
        let item = try JSON.object(self.document(old)).setting(.string(new), "lineItems.0.image")
        #expect(
            try self.outcome(.replaced(OrderDocument(members: try #require(item.object))), after: state) == .applied)
    }

    @Test func aSourcesNewSignatureIsNoNewsInAnOrderOfSeveral() throws {
        let part = { (number: Int) in
            OrderChange.Kind.merged(
                try self.document("\(Self.allowed)1.pdf?Signature=\(number)"), owns: nil)
        }
        let first = try self.fold().fold(
            nil, changes: [(.at(1), try self.change(try part(1), "1"))], nowEpochSeconds: Examples.now)
        let again = try self.fold().fold(
            first.state, changes: [(.at(2), try self.change(try part(2), "2"))],
            nowEpochSeconds: Examples.now)
        #expect(again.outcomes == [.unchanged])
        #expect(again.effect == .advanced)
    }
}
