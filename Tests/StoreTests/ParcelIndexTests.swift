import Model
import Redis
import TestTraits
import Testing

@testable import Store

/// The orders of parcels.
@Suite(.server) struct ParcelIndexTests {
    /// An order with parcels of a carrier; their fulfillments are f0, f1, ….
    static func order(_ order: String, version: Int64 = 1, _ numbers: [String]) throws -> OrderState {
        var state = try state(order, version: version)
        state.document.members["fulfillments"] = .array(
            numbers.enumerated().map { index, number in
                [
                    "fulfillmentIdentifier": .string("f\(index)"), "carrier": "DHL Express",
                    "trackingNumber": .string(number),
                ]
            })
        return state
    }

    static func parcel(_ number: String) throws -> Parcel {
        try #require(Parcel(carrier: "dhl-express", number: number))
    }

    @Test func numbersAreComparedWithoutCaseSpacesAndPunctuation() {
        #expect(Parcel(carrier: "DHL Express", number: "1z 99-A") == Parcel(carrier: "dhlexpress", number: "1Z99a"))
        #expect(Parcel(carrier: "UPS", number: "1") != Parcel(carrier: "DHL", number: "1"))
        #expect(Parcel(carrier: "UPS", number: " -") == nil)
        #expect(Parcel(carrier: "UPS", number: String(repeating: "1", count: 101)) == nil)
    }

    @Test func aParcelIsFoundAsLongAsItsOrderHasIt() async throws {
        try await StoreFixture.with { fixture in
            func write(
                _ state: OrderState, after former: OrderState? = nil, _ content: OrderStore.Write.Content? = nil
            ) async throws {
                let outcome = try await fixture.write(
                    OrderStore.Write(
                        state: state, revision: former?.version ?? 0, content: content ?? .version(somePackage)))
                #expect(outcome == .written)
            }
            func owner(_ number: String) async throws -> ParcelIndex.Owner? {
                let parcel = try Self.parcel(number)
                return try await fixture.store.parcels.owners(of: [parcel])[parcel]
            }
            let first = try Self.order("1", ["1Z 1", "1Z 2"])
            try await write(first)
            #expect(try await owner("1z1") == ParcelIndex.Owner(order: first.key, fulfillment: "f0"))
            #expect(try await owner("1z2")?.fulfillment == "f1")
            #expect(try await owner("1z3") == nil)
            // One parcel goes, one stays, one comes.
            let second = try Self.order("1", version: 2, ["1Z 2", "1Z 3"])
            try await write(second, after: first)
            #expect(try await owner("1z1") == nil)
            #expect(try await owner("1z2")?.fulfillment == "f0")
            #expect(try await owner("1z3")?.fulfillment == "f1")
            // Another order has it too; its removal leaves the other one alone.
            var other = try Self.order("2", ["1Z 3"])
            other.modifiedEpochSeconds = second.modifiedEpochSeconds + 1
            try await write(other)
            #expect(try await owner("1z3")?.order == other.key)
            var removed = try state("1", version: 3, isRemoved: true)
            removed.document = .empty
            try await write(removed, after: second, .removal)
            #expect(try await owner("1z2") == nil)
            #expect(try await owner("1z3")?.order == other.key)
            let left = try Self.parcel("1z2")
            let keys = StoreKeys.parcel(left)
            for key in [keys.owner, keys.order] { #expect(try await fixture.raw("EXISTS", key).integer == 0) }
            // An entry that a crash left behind finds nothing: its version was not written.
            let lost = try Self.order("2", version: 2, ["1Z 2"])
            #expect(try await fixture.store.parcels.note([lost]) == [nil])
            #expect(try await fixture.raw("EXISTS", keys.owner).integer == 1)
            #expect(try await owner("1z2") == nil)
        }
    }

    @Test func aRestoreBringsThemBack() async throws {
        try await StoreFixture.with { fixture in
            let (first, second) = (try Self.order("1", ["1"]), try Self.order("2", ["2"]))
            let written = try await fixture.store.restore([
                .version(first, content: "c"), .version(second, content: nil),
                .version(try state("3", version: 1), content: nil),
            ])
            #expect(written.written == 3)
            let parcels = try [Self.parcel("1"), Self.parcel("2"), Self.parcel("3")]
            let owners = try await fixture.store.parcels.owners(of: parcels)
            #expect(owners.mapValues(\.order) == [parcels[0]: first.key, parcels[1]: second.key])
        }
    }

    /// A restore reads the newest orders first.
    @Test(arguments: [false, true])
    func ofTwoOrdersTheOneThatWasModifiedLaterIsFound(_ isReversed: Bool) async throws {
        try await StoreFixture.with { fixture in
            var (older, newer) = (try Self.order("z", ["1"]), try Self.order("a", ["1"]))
            newer.modifiedEpochSeconds += 1
            older.document.members["status"] = "completed"
            for state in isReversed ? [newer, older] : [older, newer] {
                #expect(try await fixture.store.restore([.version(state, content: nil)]).written == 1)
            }
            let parcel = try Self.parcel("1")
            #expect(try await fixture.store.parcels.owners(of: [parcel])[parcel]?.order == newer.key)
            let earlier = try await fixture.raw("GET", StoreKeys.parcel(parcel).order)
            #expect(earlier.text == newer.key.description)
        }
    }

    /// The record of an earlier version, read after the newest one, notes nothing.
    @Test func anEarlierVersionHasNoParcels() async throws {
        try await StoreFixture.with { fixture in
            let (first, second) = (try Self.order("1", ["1", "2"]), try Self.order("1", version: 2, ["2"]))
            #expect(try await fixture.store.restore([.version(second, content: nil)]).written == 1)
            #expect(try await fixture.store.restore([.version(first, content: nil)]).newer == 1)
            let parcels = try [Self.parcel("1"), Self.parcel("2")]
            let owners = try await fixture.store.parcels.owners(of: parcels)
            #expect(owners == [parcels[1]: ParcelIndex.Owner(order: second.key, fulfillment: "f0")])
        }
    }

    /// No order is read for an entry of this release.
    @Test func theParcelOfAColdOrderIsFound() async throws {
        try await StoreFixture.with { fixture in
            let state = try Self.order("1", ["1"])
            let record = try #require(
                PublishedRecord(cluster: "c", partition: 0, offset: 0, bytes: 1, isEnded: true))
            let restored = OrderStore.Restored.version(state, content: nil, record, isCold: true)
            #expect(try await fixture.store.restore([restored]).written == 1)
            let parcel = try Self.parcel("1")
            #expect(
                try await fixture.store.parcels.owners(of: [parcel])
                    == [parcel: ParcelIndex.Owner(order: state.key, fulfillment: "f0")])
        }
    }

    /// An earlier release notes the order alone.
    @Test func anEntryOfAnEarlierReleaseIsFoundInItsOrder() async throws {
        try await StoreFixture.with { fixture in
            let (first, second) = (try Self.order("1", ["1"]), try Self.order("2", ["0", "1"]))
            for state in [first, second] {
                #expect(try await fixture.store.restore([.version(state, content: nil)]).written == 1)
            }
            let parcel = try Self.parcel("1")
            try await fixture.raw("DEL", StoreKeys.parcel(parcel).owner)
            #expect(try await fixture.store.parcels.owners(of: [parcel])[parcel]?.fulfillment == "f1")
            // Written by an earlier release after an entry of this one.
            #expect(try await fixture.store.parcels.note([second]) == [nil])
            try await fixture.raw("SET", StoreKeys.parcel(parcel).order, first.key.description)
            #expect(
                try await fixture.store.parcels.owners(of: [parcel])
                    == [parcel: ParcelIndex.Owner(order: first.key, fulfillment: "f0")])
        }
    }
}
