import Brands
import Foundation
import Model
import Packaging
import TestKit
import Testing

@Suite struct DeterminismTests {
    private static let order: JSON = [
        "merchant": ["logo": "logo.png"], "notes": "größer",
        "lineItems": [["image": "lamp.png"], ["image": "throw"], ["image": "images/shell.jpg"]],
        "returns": [["returnLabel": "label.pdf"]],
    ]

    private static let names = [
        "logo.png", "lamp.png", "lamp@2x.png", "throw.png", "images/shell.jpg", "label.pdf", "unused.png",
    ]

    /// Writes the brand; `isOther` changes the order of files, and white space, order and encoding of translations.
    private func write(_ folder: BrandFolder, isOther: Bool) throws {
        try folder.writeAssets(isOther ? Self.names.reversed() : Self.names)
        let german =
            isOther
            ? "// andere\r\n\"B\"\t=\t\"Stra\\U00dfe\" ;\r\n\"A\"=\"x\\ty\";"
            : "/* eine */\n\"A\" = \"x\ty\";\n\"B\" = \"Straße\";\n"
        let units = isOther ? [0xFEFF] + Array(german.utf16) : []
        let bytes = isOther ? units.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } : Array(german.utf8)
        try folder.write("assets/de.lproj/order.strings", bytes)
        try folder.write("assets/en.lproj/order.strings", text: "\"A\" = \"a\";\n\"B\" = \"b\";\n")
    }

    /// Python's `zipfile` reads both packages, which are equal except for the signature.
    @Test func equivalentBrandFilesGivePackagesThatDifferOnlyInTheSignature() throws {
        try BrandFolder.with { folder in
            var paths: [String] = []
            for isOther in [false, true] {
                let copy = BrandFolder(path: "\(folder.path)/brand-\(isOther)", certificates: folder.certificates)
                for name in ["brand.json", "certificate.pem", "key.pem", "intermediate.pem"] {
                    let content = try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)"))
                    try copy.write(name, Array(content))
                }
                try self.write(copy, isOther: isOther)
                let brand = try copy.load()
                let package = try PackageBuilder(brand).build(
                    Self.order, signingEpochSeconds: BrandFolder.moment + (isOther ? 3600 : 0))
                #expect(package.omittedFiles == [])
                paths.append(try folder.writeArchive("\(isOther).order", of: package, brand))
                try Program.run("unzip", ["-tq", paths[paths.count - 1]])
            }
            let said = try BrandFolder.python(Self.script, paths[0], paths[1]).object
            #expect(said?["count"] == 11)
            #expect(said?["differing"] == ["signature"])
            #expect(said?["differingHeaders"] == ["signature"])
            #expect(said?["images"] == ["lamp.png", "throw.png", "images/shell.jpg"])
        }
    }

    private static let script = """
        import json, sys, zipfile
        one, two = [zipfile.ZipFile(path) for path in sys.argv[1:]]
        assert one.namelist() == two.namelist(), (one.namelist(), two.namelist())
        def header(info):
            return [getattr(info, name) for name in info.__slots__ if not name.startswith("_")]
        order = json.loads(one.read("order.json"))
        print(json.dumps({
            "count": len(one.namelist()),
            "differing": [n for n in one.namelist() if one.read(n) != two.read(n)],
            "differingHeaders": [a.filename for a, b in zip(one.infolist(), two.infolist()) if header(a) != header(b)],
            "images": [item["image"] for item in order["lineItems"]],
        }))
        """
}
