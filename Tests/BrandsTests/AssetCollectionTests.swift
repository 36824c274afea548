import Brands
import Foundation
import TestKit
import Testing

/// Each file or set of files that Wallet would not show as intended, and the message that names it.
@Suite struct AssetCollectionTests {
    private func refused(_ files: [String: [UInt8]], _ expected: String, in folder: BrandFolder) throws {
        try? FileManager.default.removeItem(atPath: folder.path + "/assets")
        for (name, content) in files { try folder.write("assets/\(name)", content) }
        let error = #expect(throws: BrandError.self, "\(expected)") { try folder.load() }
        #expect(error?.code == .asset)
        #expect(error?.message.hasPrefix(folder.path + "/assets/" + expected) == true, "\(error?.message ?? "")")
    }

    private func files(_ names: [String]) -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: names.map { ($0, BrandFolder.content(of: $0)) })
    }

    @Test func aFileThatDoesNotMatchItsExtensionIsRefused() throws {
        try BrandFolder.with { folder in
            let png = SampleFile.png(seed: 1)
            let jpeg = SampleFile.jpeg(seed: 1)
            let pdf = SampleFile.pdf(text: "x")
            let refusals: [(String, [UInt8], String)] = [
                ("logo.png", jpeg, ": it is a JPEG; its name must end in .jpg"),
                ("logo.jpg", png, ": it is a PNG; its name must end in .png"),
                ("images/logo.jpeg", pdf, ": it is neither PNG nor JPEG, it is a PDF"),
                ("logo.PNG", Array(png.dropLast(20)), ": it is a PNG that ends in the middle"),
                ("logo.jpg", Array(jpeg.prefix(200)), ": it is a JPEG that ends in the middle"),
                ("logo.png", [], ": it is empty"),
                ("logo.png", Array("<html>404".utf8), ": it is neither PNG nor JPEG, it is a web page"),
                ("label.pdf", png, ": it is not a PDF"), ("label.pdf", Array(pdf.dropLast(8)), ": it is not a PDF"),
                ("label.pdf", Array("%PDF-1.4".utf8), ": it is not a PDF"),
                ("logo.gif", Array("GIF89a".utf8), ": Wallet shows files ending in .png"),
                ("logo", png, ": Wallet shows files ending in"), ("a.png/logo", png, ": Wallet shows"),
                ("en.lproj/Localizable.strings", [], ": Wallet shows files"),
            ]
            for (name, content, message) in refusals {
                try self.refused([name: content], name + message, in: folder)
            }
        }
    }

    @Test func aVariantNeedsItsPlainPictureInTheSameFolder() throws {
        try BrandFolder.with { folder in
            for (names, message) in [
                (["logo@2x.png"], "logo@2x.png: there is no logo.png"),
                (["logo.png", "images/logo@3x.png"], "images/logo@3x.png: there is no images/logo.png"),
                (["logo.jpg", "logo@2x.png"], "logo@2x.png: there is no logo.png"),
                (
                    ["logo.png", "en.lproj/order.strings", "en.lproj/logo@2x.png"],
                    "en.lproj/logo@2x.png: there is no en.lproj/logo.png"
                ),
            ] { try self.refused(self.files(names), message, in: folder) }
        }
    }

    @Test func languagesAreConsistent() throws {
        try BrandFolder.with { folder in
            let strings = ["de.lproj/order.strings", "en.lproj/order.strings", "fr.lproj/order.strings"]
            for (names, message) in [
                (strings + ["logo.png", "en.lproj/logo.png"], "en.lproj/logo.png: "),
                (
                    strings + ["de.lproj/logo.png", "en.lproj/logo.png"],
                    "fr.lproj: it has no logo.png, which de.lproj has"
                ),
                (
                    ["de.lproj", "en.lproj"].flatMap { ["\($0)/order.strings", "\($0)/a/logo.png"] }
                        + ["en.lproj/a/logo@2x.png"],
                    "de.lproj: it has no a/logo@2x.png, which en.lproj has"
                ),
                (["en.lproj/logo.png"], "en.lproj: it has no order.strings"),
                (["order.strings"], "order.strings: order.strings must be in a folder like en.lproj"),
                (["en.lproj/a/order.strings"], "en.lproj/a/order.strings: order.strings must be in"),
                (["a/en.lproj/order.strings"], "a/en.lproj: a folder of a language must be at the top"),
            ] { try self.refused(self.files(names), message, in: folder) }
            try self.refused(self.files(strings), "", in: folder, afterMaking: "it.lproj", "it.lproj: it has no order")
        }
    }

    private func refused(
        _ files: [String: [UInt8]], _: String, in folder: BrandFolder, afterMaking name: String, _ expected: String
    ) throws {
        try? FileManager.default.removeItem(atPath: folder.path + "/assets")
        for (name, content) in files { try folder.write("assets/\(name)", content) }
        _ = try folder.load()
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/assets/\(name)", withIntermediateDirectories: true)
        let error = #expect(throws: BrandError.self) { try folder.load() }
        #expect(error?.message.hasPrefix(folder.path + "/assets/" + expected) == true, "\(error?.message ?? "")")
    }

    @Test func keysThatDifferAreListedAtTheLanguageThatDiffers() throws {
        try BrandFolder.with { folder in
            func strings(_ keys: [String]) -> [UInt8] { Array(keys.map { "\"\($0)\" = \"x\";\n" }.joined().utf8) }
            let usual = strings(["A", "B", "TITLE"])
            try self.refused(
                [
                    "de.lproj/order.strings": strings(["A", "Title", "C"]), "en.lproj/order.strings": usual,
                    "fr.lproj/order.strings": usual,
                ],
                "de.lproj/order.strings: its keys are not those of en.lproj/order.strings: missing are \"B\", \"TITLE\"; "
                    + "only here are \"C\", \"Title\"; give every language the same keys", in: folder)
            try self.refused(
                ["de.lproj/order.strings": usual, "en.lproj/order.strings": strings(["A"])],
                "en.lproj/order.strings: its keys are not those of de.lproj/order.strings: missing are \"B\", \"TITLE\";",
                in: folder)
            try self.refused(
                ["de.lproj/order.strings": usual, "en.lproj/order.strings": strings((10..<40).map { "K\($0)" })],
                "en.lproj/order.strings: its keys are not those of de.lproj/order.strings: missing are \"A\", \"B\", "
                    + "\"TITLE\"; only here are \"K10\", \"K11\", \"K12\", \"K13\", \"K14\", \"K15\", \"K16\", \"K17\", "
                    + "\"K18\", \"K19\" and 20 more;", in: folder)
            // A character in two Unicode forms makes two keys, as it does for Wallet.
            try self.refused(
                ["de.lproj/order.strings": strings(["\u{E9}"]), "en.lproj/order.strings": strings(["e\u{301}"])],
                "en.lproj/order.strings: its keys are not those", in: folder)
            try self.refused(
                ["en.lproj/order.strings": Array("\"A\" = \"x\";\n\n\"A\" = \"y\";".utf8)],
                "en.lproj/order.strings:3: the key \"A\" is already in line 1", in: folder)
        }
    }

    @Test(arguments: [
        ("English", "is not a language tag"), ("Base", "is not a language tag"), ("", "is not a language tag"),
        ("e", "is not a language tag"), ("en-", "is not a language tag"), ("de-x", "is not a language tag"),
        ("d3", "is not a language tag"), ("en-US-GB", "is not a language tag"), ("en US", "is not a language tag"),
        ("pt_BR", "rename the folder to pt-BR.lproj"), ("zh-hans", "rename the folder to zh-Hans.lproj"),
        ("EN-gb", "rename the folder to en-GB.lproj"), ("zh-hant-tw", "rename the folder to zh-Hant-TW.lproj"),
    ])
    func theFolderOfALanguageIsNamedByItsTag(_ tag: String, _ message: String) throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["\(tag.isEmpty ? "en" : tag).lproj/order.strings"])
            if tag.isEmpty {
                // A folder named ".lproj" is a dot file and is ignored.
                try folder.writeAssets([".lproj/order.strings"])
                #expect(try folder.load().assets.keys.sorted() == ["en.lproj/order.strings"])
                return
            }
            let error = #expect(throws: BrandError.self) { try folder.load() }
            #expect(error?.message.contains("/\(tag).lproj: ") == true, "\(error?.message ?? "")")
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }

    @Test func commonTagsAreAcceptedAndSystemFilesIgnored() throws {
        try BrandFolder.with { folder in
            let tags = ["en", "de-CH", "zh-Hans", "zh-Hant-HK", "es-419", "fil", "ca-valencia", "de-1996"]
            let names = tags.map { "\($0).lproj/order.strings" }
            try folder.writeAssets(names + ["__MACOSX/logo", ".DS_Store", "en.lproj/.DS_Store", "._logo.png"])
            #expect(try folder.load().assets.keys.sorted() == names.sorted())
        }
    }
}
