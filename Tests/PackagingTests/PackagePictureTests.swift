import Model
import TestKit
import Testing

@testable import Brands
@testable import Packaging

@Suite struct PackagePictureTests {
    private static let digits = String(repeating: "ab", count: 32)

    private func url(_ number: Int) -> String { "https://cdn.example.com/\(number).png?key=1" }

    private func order(_ images: [String]) -> JSON {
        ["lineItems": .array(images.map { ["title": "Lamp", "image": .string($0)] })]
    }

    private func picture(_ number: Int, size: Int64) throws -> PictureFile {
        let digits = String(100_000 + number)
        let asset = String(repeating: "a", count: 64 - digits.utf8.count) + digits
        return try #require(
            PictureFile(
                name: "picture-0000000000\(digits).png", contentDigest: Self.digits, asset: asset, checksum: 7,
                size: size))
    }

    private func withBuilder(_ body: (PackageBuilder, Brand) throws -> Void) throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png"])
            var configuration = BrandFolder.configuration().object ?? JSONObject()
            configuration["pictures"] = ["hosts": ["cdn.example.com"]]
            try folder.write("brand.json", JSON.object(configuration).serialized)
            let brand = try folder.load()
            try body(PackageBuilder(brand), brand)
        }
    }

    @Test func aPictureThatWouldExceedThePackageSizeIsOmitted() throws {
        try self.withBuilder { builder, _ in
            let sizes: [Int64] = [900_000, 999_999, 950_000, 1_000_000, 990_000, 980_000]
            var pictures: [String: PictureFile] = [:]
            for (number, size) in sizes.enumerated() {
                pictures[self.url(number)] = try self.picture(number, size: size)
            }
            let order = self.order(sizes.indices.map(self.url))
            let package = try builder.build(order, pictures: pictures, signingEpochSeconds: BrandFolder.moment)
            #expect(package.size <= OrderPackage.sizeLimit)
            #expect(package.assets.count == 5)
            #expect(
                package.omittedFiles == [
                    "$.lineItems[3].image: a URL whose picture makes the package too large"
                ])
            #expect(package.missingPictures.isEmpty, "it does not wait for what is there")
            #expect(builder.contentDigest(of: order, pictures: pictures) == package.contentDigest)
        }
    }

    @Test func aMissingPictureIsListedOnce() throws {
        try self.withBuilder { builder, brand in
            let order = self.order([self.url(1), self.url(1), self.url(2), "https://other.example.com/a", "none.png"])
            let package = try builder.build(
                order, pictures: [self.url(2): try self.picture(2, size: 1000)],
                signingEpochSeconds: BrandFolder.moment)
            #expect(package.missingPictures == [self.url(1)])
            #expect(
                package.omittedFiles == [
                    "$.lineItems[3].image: a URL of other.example.com, which pictures.hosts in brand.json does not list",
                    "$.lineItems[4].image: none.png",
                ])
            #expect(package.assets.count == 1)
            #expect(brand.pictureHosts.urls(in: order) == [self.url(1), self.url(2)])
        }
    }

    /// Eight times as many names take eight times as long, where the square would be 64 times.
    @Test(arguments: ["none-", "https://other.example.com/", "https://cdn.example.com/"])
    func manyMissingFilesAreLeftOutInProportion(_ name: String) throws {
        try self.withBuilder { builder, brand in
            let growth = try ProcessorTime.growth(from: 250) { count in
                self.order((0..<count).map { "\(name)\($0).png" })
            } work: { order in
                let package = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
                #expect(package.omittedFiles.count + package.missingPictures.count >= 250)
                #expect(brand.pictureHosts.urls(in: order) == package.missingPictures)
            }
            #expect(growth < 20)
        }
    }

    @Test func manyPicturesThatDoNotFitAreLeftOutInProportion() throws {
        try self.withBuilder { builder, _ in
            let growth = try ProcessorTime.growth(from: 100) { count in
                let numbers = 0..<count
                return (
                    self.order(numbers.map(self.url)),
                    try Dictionary(
                        uniqueKeysWithValues: numbers.map {
                            (self.url($0), try self.picture($0, size: 100_000 + Int64($0)))
                        })
                )
            } work: { (order: JSON, pictures: [String: PictureFile]) in
                let package = try builder.build(order, pictures: pictures, signingEpochSeconds: BrandFolder.moment)
                #expect(package.assets.count == 49, "the smallest ones")
                #expect(package.size <= OrderPackage.sizeLimit)
                #expect(package.omittedFiles.count == pictures.count - 49)
            }
            #expect(growth < 20)
        }
    }

    @Test func aFetchedPictureOfADisallowedHostIsOmitted() throws {
        try self.withBuilder { builder, _ in
            let url = "https://other.example.com/a"
            let package = try builder.build(
                self.order([url]), pictures: [url: try self.picture(1, size: 1000)],
                signingEpochSeconds: BrandFolder.moment)
            #expect(package.assets.isEmpty)
        }
    }

    @Test func aReturnLabelURLIsNotFetchedAsAPicture() throws {
        try self.withBuilder { builder, brand in
            let order: JSON = ["returns": [["returnLabel": .string(self.url(1))]]]
            #expect(brand.pictureHosts.urls(in: order).isEmpty)
            let package = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
            #expect(package.missingPictures.isEmpty)
        }
    }

    /// A document is shown at its place only.
    @Test func aDocumentOfTheOrderIsShownWhereItsURLIs() throws {
        try BrandFolder.with { folder in
            var configuration = BrandFolder.configuration().object ?? JSONObject()
            configuration["documents"] = ["hosts": ["receipts.example.com"]]
            try folder.write("brand.json", JSON.object(configuration).serialized)
            let brand = try folder.load()
            let url = "https://receipts.example.com/1?key=secret"
            let identifier = brand.documents.identifier(of: url)
            let (file, entry) = try PictureFile.makeDocument(identifier, content: SampleFile.pdf(text: "receipt"))
            #expect(file.listing.entrySize == entry.count)
            #expect(OwnDocument.bytes(of: file.asset.rawValue) == entry.count)
            #expect(
                PictureFile(
                    name: file.name, contentDigest: file.contentDigest, asset: file.asset.rawValue,
                    checksum: Int64(file.checksum), size: Int64(file.size)) == file)
            let order: JSON = [
                "payment": ["transactions": [["receipt": .string(url)]]],
                "lineItems": [["title": "Lamp", "image": .string(url)]],
                "returns": [["returnLabel": "https://other.example.com/1?key=secret"]],
            ]
            let builder = PackageBuilder(brand)
            let package = try builder.build(
                order, pictures: [identifier: file], signingEpochSeconds: BrandFolder.moment)
            #expect(package.assets == [file.asset])
            #expect(
                package.omittedFiles == [
                    "$.lineItems[0].image: a URL of receipts.example.com, which pictures.hosts in brand.json does not "
                        + "list",
                    "$.returns[0].returnLabel: a URL of other.example.com, which documents.hosts in brand.json does not "
                        + "list",
                ])
            let without = try builder.build(order, signingEpochSeconds: BrandFolder.moment)
            #expect(without.missingPictures == [url])
        }
    }

    @Test func aFileThatIsNoDocumentIsRefusedByItsContent() {
        for (content, reason) in [
            (Array("<html>".utf8), "is neither PDF, PNG nor JPEG, it is a web page"), ([], "is empty"),
            (Array("%PDF-1.7".utf8), "is not a PDF that begins with %PDF and ends with %%EOF"),
        ] {
            let fault = #expect(throws: PictureFault.self) {
                try PictureFile.makeDocument("0123456789abcdef", content: content)
            }
            #expect(fault?.message.hasPrefix(reason) == true)
        }
    }

    @Test func aPictureFileHasTheSuffixOfItsContentAndRoundTrips() throws {
        let content = SampleFile.jpeg(seed: 1)
        let (file, entry) = try PictureFile.make(url: self.url(1), content: content)
        #expect(file.name.hasSuffix(".jpg"), "by content, whatever the URL says")
        #expect(file.listing.entrySize == entry.count)
        #expect(entry.suffix(content.count) == content[...])
        #expect(try PictureFile.make(url: self.url(2), content: content).file.name != file.name)
        let again = PictureFile(
            name: file.name, contentDigest: file.contentDigest, asset: file.asset.rawValue,
            checksum: Int64(file.checksum), size: Int64(file.size))
        #expect(again == file)
    }

    @Test func invalidPictureFileFieldsAreRefused() {
        let good = ("picture-0123456789abcdef.png", Self.digits, Self.digits, Int64(1), Int64(1))
        for (name, content, asset, checksum, size) in [
            ("logo.png", good.1, good.2, good.3, good.4), ("picture-/../x.png", good.1, good.2, good.3, good.4),
            (good.0, "ab", good.2, good.3, good.4), (good.0, good.1, "", good.3, good.4),
            (good.0, good.1, String(repeating: "G", count: 64), good.3, good.4), (good.0, good.1, good.2, -1, good.4),
            (good.0, good.1, good.2, 1 << 32, good.4), (good.0, good.1, good.2, good.3, 0),
            (good.0, good.1, good.2, good.3, Int64.max),
        ] {
            #expect(
                PictureFile(name: name, contentDigest: content, asset: asset, checksum: checksum, size: size) == nil)
        }
    }
}
