import Testing

@testable import Brands

/// The decisions about which folders to load, keep and drop, without files.
@Suite struct FolderCatalogTests {
    private struct Failure: Error, Equatable { let text: String }
    private typealias Catalog = FolderCatalog<Int, Failure>
    private static let noon: Int64 = 1_767_268_800

    private func look(
        _ catalog: inout Catalog, _ found: [String: String], isForced: Bool = false, at now: Int64 = Self.noon
    ) -> [String] {
        catalog.look(found.mapValues(FolderFingerprint.init(digest:)), isForced: isForced, nowEpochSeconds: now).load
    }

    /// Returns the event as a text.
    private func take(
        _ catalog: inout Catalog, _ folder: String, _ looks: String, _ result: Result<Int, Failure> = .success(1),
        after: String? = nil, at now: Int64 = Self.noon
    ) -> String? {
        catalog.receive(
            result, of: folder, before: FolderFingerprint(digest: looks),
            after: FolderFingerprint(digest: after ?? looks), nowEpochSeconds: now
        ).map(Self.text)
    }

    private static func text(_ event: Catalog.Event) -> String {
        switch event {
        case .loaded(let folder, let item, let former): "loaded \(folder) \(item) for \(former ?? 0)"
        case .removed(let folder, let item): "removed \(folder) \(item ?? 0)"
        case .failed(let folder, let failure): "failed \(folder) \(failure.text)"
        case .empty: "empty"
        }
    }

    @Test func aChangedFolderIsLoadedOnceTwoLooksAgree() {
        var catalog = Catalog(retrySeconds: 60)
        #expect(self.look(&catalog, ["shop": "1"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == ["shop"])
        #expect(self.take(&catalog, "shop", "2") == "loaded shop 1 for 0")
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "3"]) == [])
        #expect(self.look(&catalog, ["shop": "3"]) == ["shop"])
        #expect(self.take(&catalog, "shop", "3", .success(2)) == "loaded shop 2 for 1")
        #expect(self.look(&catalog, ["shop": "4"], isForced: true) == ["shop"])
    }

    @Test func aFolderThatChangesWhileItLoadsIsDiscarded() {
        var catalog = Catalog(retrySeconds: 60)
        #expect(self.look(&catalog, ["shop": "1"], isForced: true) == ["shop"])
        #expect(self.take(&catalog, "shop", "1", after: "2") == nil)
        #expect(catalog.items.isEmpty)
        #expect(self.look(&catalog, ["shop": "2"]) == [])
        #expect(self.look(&catalog, ["shop": "2"]) == ["shop"])
    }

    @Test func aFailureKeepsTheLastItemAndIsReportedOnce() {
        var catalog = Catalog(retrySeconds: 60)
        let (noKey, noDisk) = (Failure(text: "no key"), Failure(text: "no disk"))
        _ = self.look(&catalog, ["shop": "1"], isForced: true)
        _ = self.take(&catalog, "shop", "1")
        #expect(self.look(&catalog, ["shop": "2"], isForced: true) == ["shop"])
        #expect(self.take(&catalog, "shop", "2", .failure(noKey)) == "failed shop no key")
        #expect(catalog.items == ["shop": 1])
        // Loading is retried after a minute, even without a change, and reported only if the reason differs.
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 59) == [])
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 60) == ["shop"])
        #expect(self.take(&catalog, "shop", "2", .failure(noKey), at: Self.noon + 60) == nil)
        #expect(self.look(&catalog, ["shop": "2"], at: Self.noon + 61) == [])
        #expect(self.look(&catalog, ["shop": "2"], isForced: true, at: Self.noon + 62) == ["shop"])
        #expect(self.take(&catalog, "shop", "2", .failure(noDisk)) == "failed shop no disk")
        #expect(catalog.failures == ["shop": noDisk])
        #expect(self.look(&catalog, ["shop": "3"], isForced: true) == ["shop"])
        #expect(self.take(&catalog, "shop", "3", .success(2)) == "loaded shop 2 for 1")
        #expect(catalog.failures.isEmpty)
    }

    @Test func aFailureWithoutAPauseIsRetriedAtEachLook() {
        var catalog = Catalog(retrySeconds: 0)
        _ = self.look(&catalog, ["shop": "1"], isForced: true)
        #expect(self.take(&catalog, "shop", "1", .failure(Failure(text: "no brand"))) == "failed shop no brand")
        #expect(self.look(&catalog, ["shop": "1"]) == ["shop"])
        #expect(self.take(&catalog, "shop", "1") == "loaded shop 1 for 0")
        #expect(self.look(&catalog, ["shop": "1"]) == [])
    }

    @Test func aMissingFolderIsDroppedAtTheSecondLookUnlessTheLast() {
        func events(_ catalog: inout Catalog, _ found: [String: FolderFingerprint]) -> [String] {
            catalog.look(found, isForced: false, nowEpochSeconds: Self.noon).events.map(Self.text)
        }
        var catalog = Catalog(retrySeconds: 60)
        _ = self.look(&catalog, ["other": "1", "shop": "1"], isForced: true)
        _ = self.take(&catalog, "shop", "1")
        _ = self.take(&catalog, "other", "1", .failure(Failure(text: "empty")))
        let found = ["other": FolderFingerprint(digest: "1")]
        #expect(events(&catalog, found) == [])
        #expect(catalog.items == ["shop": 1])
        #expect(events(&catalog, found) == ["removed shop 1"])
        #expect(catalog.items == [:])

        var last = Catalog(retrySeconds: 60)
        _ = self.look(&last, ["shop": "1"], isForced: true)
        _ = self.take(&last, "shop", "1")
        for expected in [["empty"], [], []] {
            #expect(events(&last, [:]) == expected)
            #expect(last.items == ["shop": 1])
        }
        #expect(self.look(&last, ["shop": "1"]) == [])
    }
}
