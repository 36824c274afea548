import Brands
import Foundation
import Model
import TestKit
import Testing

/// The files of brands, changed while a library watches them.
@Suite struct BrandLibraryTests {
    private let orderType = "order.com.example.shop"

    private func with(_ body: (BrandFolder, _ brands: String, OrderTypeIdentifier) throws -> Void) throws {
        let directory = try TemporaryDirectory("library")
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png"])
            let brands = directory.path("brands")
            try FileManager.default.createDirectory(atPath: brands, withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: folder.path, toPath: brands + "/shop")
            try body(folder, brands, try OrderTypeIdentifier(self.orderType))
        }
    }

    private func library(_ brands: String) throws -> BrandLibrary {
        try BrandLibrary(directory: brands, webServiceURL: BrandFolder.webServiceURL)
    }

    private func look(_ library: BrandLibrary, isForced: Bool = false) -> [BrandEvent] {
        library.look(isForced: isForced, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
    }

    @Test func aChangedFileIsLoadedAndASnapshotStaysUnchanged() throws {
        try self.with { _, brands, type in
            let library = try self.library(brands)
            let before = library.brands
            #expect(self.look(library) == [])
            try Data(SampleFile.png(seed: 1, side: 64)).write(to: URL(filePath: brands + "/shop/assets/lamp.png"))
            #expect(self.look(library) == [])
            #expect(self.look(library) == [.changed(type)])
            #expect(library.brands[type]?.assets.keys.sorted() == ["lamp.png", "logo.png"])
            #expect(before[type]?.assets.keys.sorted() == ["logo.png"])
            #expect(self.look(library) == [])
            // The size is the same and the modification time restored; only the inode's change time differs.
            let path = brands + "/shop/assets/lamp.png"
            let modified = try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
            try Data(SampleFile.png(seed: 2, side: 64)).write(to: URL(filePath: path))
            try FileManager.default.setAttributes([.modificationDate: try #require(modified)], ofItemAtPath: path)
            #expect(self.look(library, isForced: true) == [.changed(type)])
        }
    }

    @Test func aSecondFolderForAnOrderTypeFailsAndTheFirstStays() throws {
        try self.with { _, brands, type in
            let library = try self.library(brands)
            try FileManager.default.copyItem(atPath: brands + "/shop", toPath: brands + "/a-twin")
            let events = self.look(library, isForced: true)
            guard case .failed(let failure)? = events.first else {
                Issue.record("\(events)")
                return
            }
            #expect(failure.folder == "a-twin")
            #expect(!failure.isKept)
            #expect(failure.orderType == type)
            #expect(failure.error.message.contains("a-twin: shop has the order type"))
            #expect(library.brands.orderTypes == [type])
        }
    }

    @Test func pushOptionsAreReloadedWithoutANewCredential() throws {
        try self.with { _, brands, type in
            let library = try self.library(brands)
            let before = try #require(library.brands[type])
            #expect(before.pushOptions == PushOptions())
            #expect(before.pushOptions.kind == .background)
            #expect(before.pushOptions.priority == .normal)
            #expect(before.pushOptions.expirationSeconds == 604_800)
            #expect(before.pushOptions.collapseIdentifier == nil)
            var object = BrandFolder.configuration().object ?? JSONObject()
            object["push"] = [
                "authentication": "certificate", "type": "alert", "priority": 10, "expirationSeconds": 3600,
                "collapseIdentifier": "orders",
            ]
            try Data(JSON.object(object).serialized).write(to: URL(filePath: brands + "/shop/brand.json"))
            #expect(self.look(library, isForced: true) == [.changed(type)])
            let after = try #require(library.brands[type])
            #expect(after.pushOptions.kind == .alert)
            #expect(after.pushOptions.priority == .immediate)
            #expect(after.pushOptions.collapseIdentifier == "orders")
            #expect(after.pushOptions.expirationEpochSeconds(nowEpochSeconds: 1000) == 4600)
            #expect(after.push == before.push)
            // If the new configuration cannot be used, the last good one stays.
            object["push"] = ["authentication": "certificate", "priority": 10]
            try Data(JSON.object(object).serialized).write(to: URL(filePath: brands + "/shop/brand.json"))
            _ = self.look(library, isForced: true)
            #expect(library.brands[type]?.pushOptions == after.pushOptions)
            #expect(library.failures.count == 1)
            // Zero means that APNs does not store the notification, not that it expires now.
            object["push"] = ["authentication": "certificate", "expirationSeconds": 0]
            try Data(JSON.object(object).serialized).write(to: URL(filePath: brands + "/shop/brand.json"))
            _ = self.look(library, isForced: true)
            #expect(library.brands[type]?.pushOptions.expirationEpochSeconds(nowEpochSeconds: 1000) == 0)
        }
    }

    /// Kubernetes puts the new files next to the old ones and swaps one link.
    @Test func aSwappedLinkIsNoticed() throws {
        try self.with { folder, brands, type in
            let files = FileManager.default
            let volume = folder.path + "-volume"
            defer { try? files.removeItem(atPath: volume) }
            try files.createDirectory(atPath: volume + "/shop", withIntermediateDirectories: true)
            try files.copyItem(atPath: brands + "/shop", toPath: volume + "/shop/..1")
            try files.copyItem(atPath: brands + "/shop", toPath: volume + "/shop/..2")
            try Data(BrandFolder.content(of: "second.png")).write(
                to: URL(filePath: volume + "/shop/..2/assets/second.png"))
            try files.createSymbolicLink(atPath: volume + "/shop/..data", withDestinationPath: "..1")
            for name in ["brand.json", "certificate.pem", "key.pem", "intermediate.pem", "assets"] {
                try files.createSymbolicLink(
                    atPath: volume + "/shop/\(name)", withDestinationPath: "..data/\(name)")
            }
            let library = try self.library(volume)
            #expect(library.brands[type]?.assets.count == 1)
            try files.createSymbolicLink(atPath: volume + "/shop/..tmp", withDestinationPath: "..2")
            try Program.run("mv", ["-T", volume + "/shop/..tmp", volume + "/shop/..data"])
            #expect(self.look(library, isForced: true) == [.changed(type)])
            #expect(library.brands[type]?.assets.count == 2)
        }
    }

    @Test func aBrokenBrandKeepsItsLastVersionUntilItIsRepaired() throws {
        try self.with { folder, brands, type in
            let library = try self.library(brands)
            let key = try Data(contentsOf: URL(filePath: brands + "/shop/key.pem"))
            try Data(contentsOf: URL(filePath: folder.certificates.providerKey)).write(
                to: URL(filePath: brands + "/shop/key.pem"))
            guard case .failed(let failure)? = self.look(library, isForced: true).first else {
                Issue.record("no failure")
                return
            }
            #expect(failure.isKept)
            #expect(failure.label == self.orderType)
            #expect(failure.error.message.contains("key.pem"))
            #expect(self.look(library) == [])
            #expect(library.brands[type] != nil)
            #expect(library.failures.count == 1)
            try key.write(to: URL(filePath: brands + "/shop/key.pem"))
            #expect(self.look(library, isForced: true) == [.changed(type)])
            #expect(library.failures.isEmpty)
        }
    }

    @Test func brandsAreAddedAndRemovedAtRunTime() throws {
        try self.with { folder, brands, type in
            let other = try OrderTypeIdentifier("order.com.example.other")
            let library = try self.library(brands)
            try BrandFolder.with(.init(orderType: other.rawValue)) { second in
                try FileManager.default.copyItem(atPath: second.path, toPath: brands + "/other")
            }
            #expect(self.look(library, isForced: true) == [.added(other)])
            #expect(library.serves(type))
            #expect(library.serves(other))
            try FileManager.default.removeItem(atPath: brands + "/shop")
            #expect(self.look(library) == [])
            #expect(self.look(library) == [.removed(type)])
            #expect(!library.serves(type))
            #expect(library.brands[type] == nil)
            #expect(library.brands[other] != nil)
            try FileManager.default.moveItem(atPath: brands, toPath: brands + "-away")
            #expect(self.look(library, isForced: true) == [.directoryEmpty])
            #expect(library.brands[other] != nil)
        }
    }

    @Test func oneBrokenBrandDoesNotKeepTheOthersFromStarting() throws {
        try self.with { folder, brands, type in
            let other = try OrderTypeIdentifier("order.com.example.other")
            try BrandFolder.with(.init(orderType: other.rawValue)) { second in
                try FileManager.default.copyItem(atPath: second.path, toPath: brands + "/other")
            }
            try FileManager.default.removeItem(atPath: brands + "/other/key.pem")
            let library = try self.library(brands)
            #expect(library.brands.orderTypes == [type])
            #expect(library.failures.map(\.label) == [other.rawValue])
            // Packages made earlier can still be served.
            #expect(library.serves(other))
            #expect(library.brands[other] == nil)
            try FileManager.default.removeItem(atPath: brands + "/shop")
            let error = #expect(throws: BrandError.self) { try self.library(brands) }
            #expect(error?.message.contains("other/key.pem") == true)
        }
    }

    @Test func theStampCoversAssetsAndDefaultsButNotPushOptions() throws {
        try self.with { folder, _, _ in
            let first = try folder.load()
            #expect(try folder.load().stamp == first.stamp)
            #expect(try !folder.load().isSameLoading(as: first))
            try folder.write("assets/logo.png", SampleFile.png(seed: 3, side: 64))
            let second = try folder.load()
            #expect(second.stamp != first.stamp)
            #expect(second.signer == first.signer)
            var object = BrandFolder.configuration().object ?? JSONObject()
            let merchant: JSON = [
                "merchantIdentifier": "merchant.com.example", "displayName": "Shop", "url": "https://x.example",
            ]
            object["defaults"] = ["merchant": merchant]
            try folder.write("brand.json", JSON.object(object).serialized)
            let third = try folder.load()
            #expect(third.stamp != second.stamp)
            object["defaults"] = ["merchant": merchant, "changeNotifications": "disabledIfAppInstalled"]
            try folder.write("brand.json", JSON.object(object).serialized)
            let fourth = try folder.load()
            #expect(fourth.stamp != third.stamp)
            // The push settings are not part of a package.
            object["push"] = ["authentication": "certificate", "type": "alert", "priority": 10]
            try folder.write("brand.json", JSON.object(object).serialized)
            #expect(try folder.load().stamp == fourth.stamp)
            _ = try DevelopmentCertificates.make(
                in: folder.path, .init(orderType: self.orderType, authority: folder.path))
            #expect(try folder.load().signer != first.signer)
        }
    }
}
