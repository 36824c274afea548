import Brands
import Foundation
import Model
import Packaging
import TestKit
import Testing

@Suite struct PackageSizeTests {
    /// Returns a picture of this many bytes, which keeps its size because pictures are not deflated.
    private func picture(_ size: Int) -> [UInt8] {
        let picture = SampleFile.png(seed: 1, side: 64)
        return picture + [UInt8](repeating: 7, count: size - picture.count)
    }

    private func order(_ pictures: [Int]) -> JSON {
        ["lineItems": .array(pictures.map { ["image": .string("\($0).png")] })]
    }

    /// Source: Wallet Orders §2.1: below 5 MB
    @Test func aPackageMustBeSmallerThan5000000Bytes() throws {
        try BrandFolder.with { folder in
            func size(_ picture: Int) throws -> Int {
                try folder.write("assets/0.png", self.picture(picture))
                let brand = try folder.load()
                let package = try PackageBuilder(brand).build(
                    self.order([0]), signingEpochSeconds: BrandFolder.moment)
                let path = try folder.writeArchive("boundary.order", of: package, brand)
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                #expect(attributes[.size] as? Int == package.size)
                return package.size
            }
            let overhead = try size(100_000) - 100_000
            #expect(try size(4_999_999 - overhead) == 4_999_999)
            #expect(OrderPackage.sizeLimit == 4_999_999)
            let error = #expect(throws: PackagingError.self) { try size(5_000_000 - overhead) }
            #expect(error?.code == .tooLarge)
            #expect(error?.message.contains("it would have 5000000 bytes and Wallet accepts 4999999") == true)
        }
    }

    @Test func theSizeErrorNamesTheLargestFiles() throws {
        try BrandFolder.with { folder in
            for index in 0..<8 {
                try folder.write("assets/\(index).png", self.picture(640_000 + index * 1000))
            }
            let builder = PackageBuilder(try folder.load())
            let eight = #expect(throws: PackagingError.self) {
                try builder.build(self.order(Array(0..<8) + [0]), signingEpochSeconds: BrandFolder.moment)
            }
            // Thirty bytes of header and the name precede the file.
            let message =
                "the largest files are 7.png with 647035, 6.png with 646035, 5.png with 645035, "
                + "4.png with 644035, 3.png with 643035; use smaller"
            #expect(eight?.message.contains(message) == true, "\(eight?.message ?? "")")
            #expect(throws: Never.self) {
                try builder.build(self.order([0, 1, 2, 3, 4, 5, 6]), signingEpochSeconds: BrandFolder.moment)
            }
            let long = #expect(throws: PackagingError.self) {
                try builder.build(
                    ["notes": .string(String(repeating: "x", count: 5_000_000)), "merchant": ["logo": "7.png"]],
                    signingEpochSeconds: BrandFolder.moment)
            }
            #expect(long?.message.contains("files are order.json with 50000") == true, "\(long?.message ?? "")")
            #expect(long?.message.contains("7.png with 647035") == true)
        }
    }
}
