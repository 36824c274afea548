import Brands
import Foundation
import Model
import Packaging
import TestKit
import Testing

@Suite struct PackageBuilderTests {
    private func example(_ name: String) throws -> JSON {
        let file = Repository.root.appending(path: "Shared/Model/Schemas/examples/\(name).order.json")
        return try JSON(parsing: Array(Data(contentsOf: file)))
    }

    private static let examples = [
        "01-shipping-multi-fulfillment", "02-pickup-barcode", "03-return-refund", "04-static-receipt-minimal",
        "05-schema2-order-provider",
    ]

    @Test(arguments: Self.examples)
    func everyExampleIsPackagedWithAllItsFiles(name: String) throws {
        try BrandFolder.with { folder in
            let order = try self.example(name)
            let named = Set(self.fileNames(order))
            try folder.writeAssets(
                named + ["unused.png", "logo.png", "logo@2x.png", "en.lproj/order.strings", "größe.png"])
            let brand = try folder.load()
            let package = try PackageBuilder(brand).build(order, signingEpochSeconds: BrandFolder.moment)
            let bytes = try archive(package, brand)
            #expect(package.size == bytes.count)
            #expect(package.omittedFiles == [])

            let read = try ReadArchive.read(bytes, in: folder)
            let expected = named.union(["en.lproj/order.strings"]).union(
                named.contains("logo.png") ? ["logo@2x.png"] : [])
            #expect(read.names.suffix(3) == ["order.json", "manifest.json", "signature"])
            #expect(Array(read.names.dropLast(3)) == expected.sorted())
            #expect(read.manifest == read.digests)
            #expect(read.manifest.members.map(\.name) == (expected.union(["order.json"])).sorted())
            #expect(read.order == order)
        }
    }

    @Test func theHeadAndTailOfASmallOrderAreBelow3000Bytes() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png"])
            let brand = try folder.load()
            let package = try PackageBuilder(brand).build(
                self.example(Self.examples[0]), signingEpochSeconds: BrandFolder.moment)
            // Design §7: about 3 kB that differ for each order.
            #expect(package.head.count + package.tail.count < 3000)
        }
    }

    @Test func missingFilesAndDisallowedURLsAreOmittedAndListed() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["shell.jpg"])
            let brand = try folder.load()
            var order = try self.example("03-return-refund")
            self.change(&order, "merchant") { $0["logo"] = "https://cdn.example.com/logo.png?key=secret" }
            let package = try PackageBuilder(brand).build(order, signingEpochSeconds: BrandFolder.moment)
            #expect(
                package.omittedFiles == [
                    "$.lineItems[0].image: trail5.jpg",
                    "$.merchant.logo: a URL of cdn.example.com, which pictures.hosts in brand.json does not list",
                    "$.payment.transactions[0].receipt: receipt-purchase.pdf",
                    "$.payment.transactions[1].receipt: receipt-refund.pdf",
                    "$.returns[0].returnLabel: return-label.pdf",
                ])
            let read = try ReadArchive.read(archive(package, brand), in: folder)
            #expect(read.names == ["shell.jpg", "order.json", "manifest.json", "signature"])
            #expect(self.fileNames(read.order) == ["shell.jpg", "shell.jpg"])
            #expect(read.order.object?["merchant"]?.object?["displayName"] == "Stridefoot")
        }
    }

    @Test func aMissingTrackingLogoOmitsTheOrderProvider() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png", "provider-light.png"])
            let brand = try folder.load()
            let package = try PackageBuilder(brand).build(
                self.example("05-schema2-order-provider"), signingEpochSeconds: BrandFolder.moment)
            #expect(package.omittedFiles == ["$.orderProvider.trackingLogoNameDarkColorScheme: provider-dark.png"])
            let read = try ReadArchive.read(archive(package, brand), in: folder)
            #expect(read.names.dropLast(3) == ["logo.png"])
            #expect(read.order.object?["orderProvider"] == nil)
        }
    }

    @Test func aPictureIsPackagedWithItsVariantsAndTranslations() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets([
                "lamp.png", "lamp@2x.png", "lamp@3x.png", "throw.pdf", "de.lproj/logo.png", "de.lproj/logo@3x.png",
                "de.lproj/other.png", "de.lproj/order.strings", "fr.lproj/logo.png", "fr.lproj/logo@3x.png",
                "fr.lproj/other.png", "fr.lproj/order.strings",
            ])
            let brand = try folder.load()
            let package = try PackageBuilder(brand).build(
                self.example("01-shipping-multi-fulfillment"), signingEpochSeconds: BrandFolder.moment)
            let read = try ReadArchive.read(archive(package, brand), in: folder)
            #expect(
                read.names.dropLast(3) == [
                    "de.lproj/logo.png", "de.lproj/logo@3x.png", "de.lproj/order.strings", "fr.lproj/logo.png",
                    "fr.lproj/logo@3x.png", "fr.lproj/order.strings", "lamp.png", "lamp@2x.png", "lamp@3x.png",
                ])
            #expect(package.omittedFiles.contains("$.lineItems[1].image: throw.png"))
        }
    }

    @Test func buildsAtDifferentTimesDifferOnlyInTheSignature() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png", "lamp.png", "throw.png", "receipt.pdf", "de.lproj/order.strings"])
            let order = try self.example(Self.examples[0])
            let brand = try folder.load()
            let builder = PackageBuilder(brand)
            let first = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
            #expect(try builder.build(order, signingEpochSeconds: BrandFolder.moment) == first)
            #expect(try PackageBuilder(folder.load()).build(order, signingEpochSeconds: BrandFolder.moment) == first)

            let second = try builder.build(order, signingEpochSeconds: BrandFolder.moment + 1)
            #expect(second.entityTag != first.entityTag)
            #expect(second.assets == first.assets)
            #expect(second.size == first.size)
            let (left, right) = (try archive(first, brand), try archive(second, brand))
            let (one, two) = (try ReadArchive.read(left, in: folder), try ReadArchive.read(right, in: folder))
            #expect(one.manifest == two.manifest)
            #expect(one.names == two.names)
            let differing = zip(left, right).enumerated().filter { $1.0 != $1.1 }.map(\.offset)
            // Signing time and RSA value; the checksum of the signature in both headers.
            #expect(differing.count < 256 + 13 + 8)
        }
    }

    @Test func malformedOrdersArePackagedUnchanged() throws {
        try BrandFolder.with { folder in
            let brand = try folder.load()
            let builder = PackageBuilder(brand)
            for odd: JSON in [
                [:], ["merchant": "x", "lineItems": ["a", ["image": 5]], "returns": ["returnLabel": "x"]],
                ["payment": ["transactions": [[:]]]],
            ] {
                let package = try builder.build(odd, signingEpochSeconds: BrandFolder.moment)
                let read = try ReadArchive.read(archive(package, brand), in: folder)
                #expect(read.order == odd)
                #expect(package.omittedFiles == [])
            }
        }
    }

    @Test func concurrentBuildsGiveIdenticalPackages() async throws {
        let (brand, order) = try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png", "lamp.png", "throw.png"])
            return (try folder.load(), try self.example(Self.examples[0]))
        }
        let builder = PackageBuilder(brand)
        let expected = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<20 {
                        let package = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
                        #expect(package == expected)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Returns the names of all files in an order, in the order of their places.
    private func fileNames(_ order: JSON) -> [String] {
        let object = order.object
        func images(_ object: JSONObject?) -> [String] {
            (object?["lineItems"]?.array ?? []).compactMap { $0.object?["image"]?.string }
        }
        let provider = object?["orderProvider"]?.object
        var names = [
            object?["merchant"]?.object?["logo"]?.string, provider?["trackingLogoNameLightColorScheme"]?.string,
            provider?["trackingLogoNameDarkColorScheme"]?.string,
        ].compactMap(\.self)
        names += images(object)
        for item in (object?["fulfillments"]?.array ?? []) + (object?["returns"]?.array ?? []) {
            names += images(item.object) + [item.object?["returnLabel"]?.string].compactMap(\.self)
        }
        names += (object?["payment"]?.object?["transactions"]?.array ?? []).compactMap { $0.object?["receipt"]?.string }
        return names
    }

    private func change(_ order: inout JSON, _ member: String, _ body: (inout JSONObject) -> Void) {
        guard var root = order.object, var object = root[member]?.object else { return }
        body(&object)
        root[member] = .object(object)
        order = .object(root)
    }
}

/// Packages are equal if their archives are.
extension OrderPackage: Equatable {
    static func == (first: OrderPackage, second: OrderPackage) -> Bool {
        first.head == second.head && first.assets == second.assets && first.tail == second.tail
            && first.certificates.bytes == second.certificates.bytes && first.entityTag == second.entityTag
    }
}
