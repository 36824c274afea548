import Brands
import Model
import Packaging
import TestKit
import Testing

@Suite struct AssetNameTests {
    /// Packages an order that names an image and a label. Returns the names in order.json; nil for one that is left
    /// out.
    private func said(_ folder: BrandFolder, _ image: String, label: String? = nil) throws -> (JSON?, JSON?) {
        let brand = try folder.load()
        var order: JSONObject = ["lineItems": [["image": .string(image)]]]
        if let label { order["returns"] = [["returnLabel": .string(label)]] }
        let package = try PackageBuilder(brand).build(.object(order), signingEpochSeconds: BrandFolder.moment)
        let read = try ReadArchive.read(archive(package, brand), in: folder)
        let found = read.order.object?["lineItems"]?.array?.first?.object?["image"]
        #expect(package.omittedFiles.contains("$.lineItems[0].image: \(image)") == (found == nil))
        if let name = found?.string { #expect(read.names.contains { $0 == name || $0.hasSuffix(".lproj/\(name)") }) }
        return (found, read.order.object?["returns"]?.array?.first?.object?["returnLabel"])
    }

    /// Source: Wallet Orders §2.6
    @Test func anUnambiguousPictureNameNeedsNoSuffix() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(
                [
                    "logo.png", "logo@2x.png", "logo.pdf", "twice.png", "twice.jpg", "images/a.b.jpeg", "UPPER.PNG",
                    "de.lproj/flag.png", "de.lproj/order.strings", "fr.lproj/flag.png", "fr.lproj/order.strings",
                ].filter { $0 != "UPPER.PNG" })
            try folder.write("assets/UPPER.PNG", SampleFile.png(seed: 3))
            for (name, full) in [
                ("logo", "logo.png"), ("logo.png", "logo.png"), ("images/a.b", "images/a.b.jpeg"),
                ("flag", "flag.png"), ("flag.png", "flag.png"), ("UPPER", "UPPER.PNG"),
            ] { #expect(try self.said(folder, name).0 == .string(full), "\(name)") }
            // Ambiguous, unknown, no picture, one language only, a variant.
            for name in ["twice", "a.b", "logo.pdf", "de.lproj/flag.png", "de.lproj/flag", "upper", "logo@2x", "logo."]
            { #expect(try self.said(folder, name).0 == nil, "\(name)") }
        }
    }

    @Test func aReturnLabelMayBeADocumentOrAPicture() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["label.pdf", "label.png", "label.jpg"])
            for name in ["label.pdf", "label.png", "label.jpg"] {
                #expect(try self.said(folder, "x", label: name).1 == .string(name))
            }
            #expect(try self.said(folder, "x", label: "label").1 == nil)
        }
    }

    @Test func trackingLogosNeedNoSuffixAndMustBothExist() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["light.png", "dark.jpg"])
            let brand = try folder.load()
            let names = ["trackingLogoNameLightColorScheme", "trackingLogoNameDarkColorScheme"]
            for (light, dark, isKept) in [("light", "dark", true), ("light", "none", false), ("none", "dark", false)] {
                let order: JSON = ["orderProvider": [names[0]: .string(light), names[1]: .string(dark)].json]
                let package = try PackageBuilder(brand).build(order, signingEpochSeconds: BrandFolder.moment)
                let read = try ReadArchive.read(archive(package, brand), in: folder)
                let provider = read.order.object?["orderProvider"]?.object
                #expect(provider?[names[0]] == (isKept ? "light.png" : nil))
                #expect(provider?[names[1]] == (isKept ? "dark.jpg" : nil))
                #expect(read.names.count == (isKept ? 5 : 3))
            }
        }
    }
}

extension [String: JSON] {
    fileprivate var json: JSON { .object(JSONObject(self.map { ($0.key, $0.value) })) }
}
