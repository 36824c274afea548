import Foundation
import Model
import TestKit
import Testing

@testable import Brands

/// The decisions about which brands to load, keep and drop, without files.
@Suite struct BrandCatalogTests {
    private static let brand = Result { try BrandFolder.with { try $0.load() } }
    private static let noon: Int64 = 1_767_268_800

    private func look(
        _ catalog: inout BrandCatalog, _ found: [String: String], isForced: Bool = false, at now: Int64 = Self.noon
    ) -> [String] {
        catalog.look(found.mapValues(BrandFingerprint.init(digest:)), isForced: isForced, nowEpochSeconds: now).load
    }

    private func take(
        _ catalog: inout BrandCatalog, _ folder: String, _ looks: String, fails message: String? = nil,
        after: String? = nil, at now: Int64 = Self.noon
    ) throws -> [BrandEvent] {
        let brand = try Self.brand.get()
        return catalog.receive(
            message.map { .failure(BrandError(.file, $0)) } ?? .success(brand), of: folder,
            before: BrandFingerprint(digest: looks), after: BrandFingerprint(digest: after ?? looks),
            declaration: BrandFile.Declaration(orderType: brand.orderType, tokenSecrets: nil), nowEpochSeconds: now)
    }

    @Test func aChangedBrandIsLoadedOnceTwoLooksAgree() throws {
        var catalog = BrandCatalog()
        #expect(self.look(&catalog, ["shop": "1"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == ["shop"])
        let type = try Self.brand.get().orderType
        #expect(try self.take(&catalog, "shop", "2") == [.added(type)])
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "3"]) == [])
        #expect(self.look(&catalog, ["shop": "3"]) == ["shop"])
        #expect(try self.take(&catalog, "shop", "3") == [.changed(type)])
        #expect(self.look(&catalog, ["shop": "4"], isForced: true) == ["shop"])
    }

    @Test func aBrandThatChangesWhileItLoadsIsDiscarded() throws {
        var catalog = BrandCatalog()
        #expect(self.look(&catalog, ["shop": "1"], isForced: true) == ["shop"])
        #expect(try self.take(&catalog, "shop", "1", after: "2") == [])
        #expect(catalog.brands.orderTypes.isEmpty)
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == ["shop"])
    }

    @Test func aFailingBrandKeepsItsLastVersionAndIsReportedOnce() throws {
        var catalog = BrandCatalog()
        let type = try Self.brand.get().orderType
        _ = self.look(&catalog, ["shop": "1"], isForced: true)
        _ = try self.take(&catalog, "shop", "1")
        #expect(self.look(&catalog, ["shop": "2"], isForced: true) == ["shop"])
        let events = try self.take(&catalog, "shop", "2", fails: "no key")
        guard case .failed(let failure)? = events.first else {
            Issue.record("\(events)")
            return
        }
        #expect(failure.isKept)
        #expect(failure.orderType == type)
        #expect(failure.error.message == "no key")
        #expect(catalog.brands[type] != nil)
        // Loading is retried after a minute, even without a change, and reported only if the reason differs.
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 59) == [])
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 60) == ["shop"])
        #expect(try self.take(&catalog, "shop", "2", fails: "no key", at: Self.noon + 60) == [])
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 61) == [])
        #expect(self.look(&catalog, ["shop": "2"], isForced: true, at: Self.noon + 62) == ["shop"])
        #expect(try self.take(&catalog, "shop", "2", fails: "no certificate").count == 1)
        #expect(catalog.failures.map(\.error.message) == ["no certificate"])
        #expect(self.look(&catalog, ["shop": "3"], isForced: true) == ["shop"])
        #expect(try self.take(&catalog, "shop", "3") == [.changed(type)])
        #expect(catalog.failures.isEmpty)
    }

    @Test func aMissingBrandIsDroppedAtTheSecondLookUnlessTheLast() throws {
        var catalog = BrandCatalog()
        let type = try Self.brand.get().orderType
        _ = self.look(&catalog, ["other": "1", "shop": "1"], isForced: true)
        _ = try self.take(&catalog, "shop", "1")
        _ = try self.take(&catalog, "other", "1", fails: "empty")
        let found = ["other": BrandFingerprint(digest: "1")]
        #expect(catalog.look(found, isForced: false, nowEpochSeconds: Self.noon).events == [])
        #expect(catalog.brands[type] != nil)
        #expect(catalog.look(found, isForced: false, nowEpochSeconds: Self.noon).events == [.removed(type)])
        #expect(catalog.brands[type] == nil)

        var last = BrandCatalog()
        _ = self.look(&last, ["shop": "1"], isForced: true)
        _ = try self.take(&last, "shop", "1")
        for expected in [[BrandEvent.directoryEmpty], [], []] {
            #expect(last.look([:], isForced: true, nowEpochSeconds: Self.noon).events == expected)
            #expect(last.brands[type] != nil)
        }
        #expect(self.look(&last, ["shop": "1"]) == [])
    }

    @Test func aSecondFolderForAnOrderTypeFailsAndTheFirstStays() throws {
        var catalog = BrandCatalog()
        _ = self.look(&catalog, ["shop": "1", "twin": "1"], isForced: true)
        _ = try self.take(&catalog, "shop", "1")
        let events = try self.take(&catalog, "twin", "1")
        guard case .failed(let failure)? = events.first else {
            Issue.record("\(events)")
            return
        }
        #expect(!failure.isKept)
        #expect(failure.error.message.contains("twin: shop has the order type"))
        #expect(catalog.brands.orderTypes.count == 1)
    }
}
