import Foundation
import Model
import TestKit

/// Archives and DEFLATE streams made by Python's `zipfile` and `zlib`, with defects as their names say.
enum PythonZip {
    /// Every archive of `script`, by name; made once.
    static let archives = Result { try Self.made(by: Self.script) }

    /// Runs a Python program that prints one JSON object of Base64 strings, and returns their bytes.
    static func made(by script: String, _ arguments: [String] = []) throws -> [String: [UInt8]] {
        let said = try Program.run("python3", ["-W", "ignore", "-c", script] + arguments)
        let members = try JSON(parsing: Array(said.utf8)).object?.members ?? []
        return Dictionary(
            uniqueKeysWithValues: members.map { member in
                (member.name, [UInt8](Data(base64Encoded: member.value.string ?? "") ?? Data()))
            })
    }

    /// Returns an archive of these files in this order.
    static func archive(
        _ files: [(name: String, content: [UInt8])], compressing: Set<String> = [], comment: String = ""
    ) throws -> [UInt8] {
        let directory = try TemporaryDirectory("zip")
        defer { directory.remove() }
        let list = JSON.array(
            files.map { file in
                [
                    "name": .string(file.name), "content": .string(Data(file.content).base64EncodedString()),
                    "deflate": .bool(compressing.contains(file.name)),
                ]
            })
        let path = try directory.write("files.json", list.serialized)
        let script = """
            import base64, io, json, sys, zipfile
            data = io.BytesIO()
            with zipfile.ZipFile(data, "w") as archive:
                archive.comment = sys.argv[2].encode()
                for file in json.load(open(sys.argv[1])):
                    kind = zipfile.ZIP_DEFLATED if file["deflate"] else zipfile.ZIP_STORED
                    archive.writestr(zipfile.ZipInfo(file["name"]), base64.b64decode(file["content"]), kind)
            print(json.dumps({"archive": base64.b64encode(data.getvalue()).decode()}))
            """
        return try Self.made(by: script, [path, comment])["archive"] ?? []
    }

    private static let script = """
        import base64, io, json, struct, zipfile
        made = {}
        text = b"order " * 400

        def archive(files, kind=zipfile.ZIP_DEFLATED, stream=None):
            data = stream or io.BytesIO()
            with zipfile.ZipFile(data, "w", kind) as zip:
                for name, content in files:
                    zip.writestr(zipfile.ZipInfo(name), content, kind)
            return bytearray(data.getvalue())

        def local(data, nth=0):
            at = -1
            for _ in range(nth + 1): at = data.index(b"PK\\x03\\x04", at + 1)
            return at

        def central(data, nth=0):
            at = -1
            for _ in range(nth + 1): at = data.index(b"PK\\x01\\x02", at + 1)
            return at

        def put(data, at, form, *values):
            struct.pack_into("<" + form, data, at, *values)
            return data

        two = [("order.json", text), ("logo.png", bytes(range(256)))]
        good = lambda: archive(two)
        plain = lambda: archive(two, zipfile.ZIP_STORED)

        made["good"] = good()
        made["good, stored"] = plain()
        made["good, empty"] = archive([])
        made["good, empty file"] = archive([("a", b"")], zipfile.ZIP_STORED)
        made["good, folder"] = archive([("en.lproj/", b""), ("en.lproj/order.strings", b"x")], zipfile.ZIP_STORED)
        made["good, UTF-8 name"] = archive([("caf\\u00e9.png", b"x")], zipfile.ZIP_STORED)

        made["duplicate name"] = archive([("a", b"1"), ("a", b"2")])
        for name in ["../a", "a/../b", "a/./b", "a//b", "/etc/passwd", "C:/a", "a\\\\b", "a\\nb"]:
            made["name " + name] = archive([(name.replace("\\\\", "#").replace("\\n", "#"), b"x")])
            made["name " + name] = bytearray(bytes(made["name " + name]).replace(
                name.replace("\\\\", "#").replace("\\n", "#").encode(), name.encode()))
        data = plain()
        put(data, central(data, 1) + 42, "I", local(data) + 4)
        made["entry that starts inside another"] = data
        data = plain()
        put(data, central(data, 1) + 42, "I", local(data, 0))
        made["two names for one entry"] = data
        data = plain()
        # The second entry, header and all, stands inside the content of the first.
        inner = archive([("b", b"inner")], zipfile.ZIP_STORED)
        inner = inner[:central(inner)]
        data = archive([("a", bytes(inner)), ("b", b"inner")], zipfile.ZIP_STORED)
        put(data, central(data, 1) + 42, "I", 31)
        made["overlapping entries"] = data
        data = plain()
        data[local(data) + 40 + 3] ^= 1
        made["bad CRC"] = data
        data = good()
        data[local(data) + 40 + 3] ^= 0x40
        made["bad deflate"] = data
        data = plain()
        put(data, local(data) + 14, "I", 7)
        made["local checksum differs"] = data
        data = plain()
        put(data, local(data) + 26, "H", 9)
        made["local name length differs"] = data
        data = plain()
        data[local(data) + 30] = ord("O")
        made["local name differs"] = data
        data = plain()
        data[local(data)] = 0
        made["no local header"] = data
        data = plain()
        put(data, central(data, 1) + 20, "II", 1 << 20, 1 << 20)
        made["size beyond the archive"] = data
        data = plain()
        put(data, central(data) + 42, "I", 0xFFFFFF)
        made["offset beyond the archive"] = data
        for form, at in (("central", central), ("local", local)):
            data = plain()
            put(data, at(data) + (8 if form == "central" else 6), "H", 1)
            made["encrypted in the " + form + " header"] = data
        data = plain()
        put(data, central(data) + 8, "H", 1)
        put(data, local(data) + 6, "H", 1)
        made["encrypted"] = data

        class Stream(io.RawIOBase):
            def __init__(self): self.data = bytearray()
            def writable(self): return True
            def write(self, some): self.data += some; return len(some)
            def getvalue(self): return self.data
        made["data descriptor"] = archive(two, stream=Stream())

        made["truncated by one"] = good()[:-1]
        made["truncated in the directory"] = good()[:central(good()) + 20]
        made["truncated in the first entry"] = good()[:20]
        made["no bytes"] = b""
        made["text"] = b"This is no archive at all, but long enough to be one."
        data = io.BytesIO(bytes(good()))
        with zipfile.ZipFile(data, "a") as zip: zip.comment = b"hello"
        made["comment"] = data.getvalue()
        made["bytes behind"] = good() + b"more"
        made["bytes before"] = bytearray(b"before") + good()
        data = bytearray(b"before") + good()
        for nth in range(2): put(data, central(data, nth) + 42, "I", local(data, nth))
        put(data, len(data) - 6, "I", central(data))
        made["bytes before the first entry"] = data
        data = good()
        hole = local(data, 1)
        data = data[:hole] + b"hidden" + data[hole:]
        put(data, central(data, 1) + 42, "I", hole + 6)
        put(data, len(data) - 6, "I", central(data))
        made["bytes between entries"] = data
        data = good()
        hole = central(data)
        data = data[:hole] + b"hidden" + data[hole:]
        put(data, len(data) - 6, "I", hole + 6)
        made["bytes before the directory"] = data
        data = good()
        put(data, len(data) - 14, "HH", 3, 3)
        made["more entries said than there"] = data
        data = good()
        put(data, len(data) - 14, "HH", 1, 1)
        made["fewer entries said than there"] = data
        data = good()
        put(data, len(data) - 18, "HH", 1, 1)
        made["several parts"] = data
        data = good()
        put(data, len(data) - 14, "HH", 0xFFFF, 0xFFFF)
        made["ZIP64"] = data
        made["too many entries"] = archive([("f%d" % n, b"") for n in range(4097)], zipfile.ZIP_STORED)
        made["bzip2"] = archive(two, zipfile.ZIP_BZIP2)
        made["lzma"] = archive(two, zipfile.ZIP_LZMA)
        data = archive([("caf\\u00e9", b"x")], zipfile.ZIP_STORED)
        put(data, central(data) + 8, "H", 0)
        put(data, local(data) + 6, "H", 0)
        made["UTF-8 name without the mark"] = data
        data = archive([("caf#", b"x")], zipfile.ZIP_STORED)
        made["name in Latin-1"] = bytearray(bytes(data).replace(b"caf#", b"caf\\xe9"))
        data = archive([("a/", b"")], zipfile.ZIP_STORED)
        made["folder with content"] = bytearray(bytes(archive([("a#", b"x")], zipfile.ZIP_STORED)).replace(b"a#", b"a/"))

        def claiming(data, size, nth=0):
            put(data, local(data, nth) + 22, "I", size)
            return put(data, central(data, nth) + 24, "I", size)
        bomb = archive([("bomb", bytes(100 << 20))])
        made["bomb"] = bomb
        made["bomb that says it is small"] = claiming(bytearray(bomb), 1000)
        data = archive([("bomb%d" % n, b"x" * 100) for n in range(5)])
        for nth in range(5): claiming(data, 15 << 20, nth)
        made["many bombs"] = data
        made["smaller than it says"] = claiming(good(), 5000)
        data = plain()
        made["stored with another size"] = claiming(data, 5000)

        print(json.dumps({name: base64.b64encode(bytes(data)).decode() for name, data in made.items()}))
        """
}
