import Brands
import Model
import Packaging
import TestKit
import Testing

/// Translations of a brand in its packages.
@Suite struct TranslationTests {
    /// Python decodes the package's translations by their byte order marks.
    @Test func packagedTranslationsAreDecodedCorrectlyByPython() throws {
        try BrandFolder.with { folder in
            let german = Array("\"TITLE\" = \"Größe \\\"L\\\"\";".utf16).flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
            try folder.write("assets/de.lproj/order.strings", [0xFE, 0xFF] + german)
            try folder.write("assets/en.lproj/order.strings", text: "// English\n\"TITLE\" = \"Size\\nL\";")
            try folder.write("assets/ja.lproj/order.strings", text: "\"TITLE\" = \"サイズ\";")
            let brand = try folder.load()
            let package = try PackageBuilder(brand).build([:], signingEpochSeconds: BrandFolder.moment)
            let path = try folder.writeArchive("strings.order", of: package, brand)
            let script = """
                import json, sys, zipfile
                archive = zipfile.ZipFile(sys.argv[1])
                said = {}
                for name in archive.namelist():
                    if name.endswith("/order.strings"):
                        data = archive.read(name)
                        said[name] = data.decode("utf-16" if data[:2] in (b"\\xff\\xfe", b"\\xfe\\xff") else "ascii")
                print(json.dumps(said))
                """
            let said = try BrandFolder.python(script, path)
            #expect(
                said == [
                    "de.lproj/order.strings": "\"TITLE\" = \"Größe \\\"L\\\"\";\n",
                    "en.lproj/order.strings": "\"TITLE\" = \"Size\\nL\";\n",
                    "ja.lproj/order.strings": "\"TITLE\" = \"サイズ\";\n",
                ])
        }
    }
}
