import Brands
import Foundation
import Model
import Packaging
import TestKit

extension BrandFolder {
    func load() throws -> Brand { try Brand.load(directory: self.path, webServiceURL: Self.webServiceURL) }

    /// Writes an archive into the folder, for other programs to read.
    func writeArchive(_ name: String, of package: OrderPackage, _ brand: Brand) throws -> String {
        try self.write(name, archive(package, brand))
        return "\(self.path)/\(name)"
    }
}

/// Returns the archive as a device receives it.
func archive(_ package: OrderPackage, _ brand: Brand) throws -> [UInt8] {
    let entries = Dictionary(uniqueKeysWithValues: brand.assets.values.map { ($0.entryDigest, $0.entry) })
    var bytes: [UInt8] = []
    for digest in package.assets { bytes += try entries[digest] ?? { throw ArchiveError() }() }
    return bytes + package.head + package.certificates.bytes + package.tail
}

/// A package names an asset that its brand does not have.
struct ArchiveError: Error {}

/// The content of an archive as Python reads it: names in order, digests by name, the contents of manifest and order.
struct ReadArchive {
    let names: [String]
    let manifest: JSONObject
    let digests: JSONObject
    let order: JSON

    /// Has Python's `zipfile` and `hashlib` and the `openssl` program read and check an archive.
    static func read(_ bytes: [UInt8], in folder: BrandFolder) throws -> ReadArchive {
        try folder.write("out/package.order", bytes)
        let directory = folder.path + "/out"
        try Program.run("unzip", ["-t", directory + "/package.order"])
        let said = try Program.run("python3", ["-c", self.script, directory])
        try OpenSSLProgram.run([
            "cms", "-verify", "-inform", "DER", "-in", directory + "/signature", "-content",
            directory + "/manifest.json", "-binary", "-CAfile", folder.certificates.root, "-purpose", "any", "-out",
            "/dev/null",
        ])
        let object = try JSON(parsing: Array(said.utf8)).object ?? JSONObject()
        let manifest = try JSON(parsing: Array(Data(contentsOf: URL(fileURLWithPath: directory + "/manifest.json"))))
        return ReadArchive(
            names: object["names"]?.array?.compactMap(\.string) ?? [], manifest: manifest.object ?? JSONObject(),
            digests: object["digests"]?.object ?? JSONObject(), order: object["order"] ?? .null)
    }

    private static let script = """
        import hashlib, json, sys, zipfile
        directory = sys.argv[1]
        archive = zipfile.ZipFile(directory + "/package.order")
        assert archive.testzip() is None
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0), info
            assert info.extra == b"" and info.comment == b"" and info.external_attr == 0, info
            assert info.flag_bits & ~0x800 == 0, info
            assert info.extract_version == (20 if info.compress_type else 10), info
        for name in ("manifest.json", "signature"):
            open(directory + "/" + name, "wb").write(archive.read(name))
        print(json.dumps({
            "names": archive.namelist(),
            "digests": {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()
                        if n not in ("manifest.json", "signature")},
            "order": json.loads(archive.read("order.json")),
        }))
        """
}
