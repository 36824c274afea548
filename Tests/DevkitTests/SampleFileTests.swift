import Foundation
import Model
import TestKit
import Testing

@testable import Devkit

/// The pictures and documents of the development brand, read by Python and by other programs that are installed.
@Suite struct SampleFileTests {
    /// Runs a Python program on a file and returns its output; a traceback becomes the error.
    static func read(_ content: [UInt8], _ name: String, by script: String) throws -> String {
        let directory = try TemporaryDirectory("sample")
        defer { directory.remove() }
        let path = try directory.write(name, content)
        let said = try Program.run("python3", ["-c", script, path])
        for (program, arguments) in [("file", ["-b"]), ("pdfinfo", []), ("pngcheck", ["-q"]), ("djpeg", ["-fast"])] {
            let isFor = ["pdfinfo": ".pdf", "pngcheck": ".png", "djpeg": ".jpg"][program] ?? ""
            guard Self.isInstalled(program), isFor.isEmpty || name.hasSuffix(isFor) else { continue }
            let heard = try Program.run(program, arguments + [path])
            #expect(program != "file" || heard.contains(name.suffix(3) == "jpg" ? "JPEG" : name.suffix(3).uppercased()))
        }
        return said.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private static func isInstalled(_ program: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
    }

    @Test(arguments: [0, 255] as [UInt8])
    func aPNGHasChunksWithRightChecksumsAndAllItsRows(_ seed: UInt8) throws {
        let script = """
            import struct, sys, zlib
            data = open(sys.argv[1], "rb").read()
            assert data[:8] == b"\\x89PNG\\r\\n\\x1a\\n"
            at, chunks = 8, []
            while at < len(data):
                size, kind = struct.unpack(">I4s", data[at:at + 8])
                body = data[at + 8:at + 8 + size]
                assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body), kind
                chunks.append((kind.decode(), body))
                at += 12 + size
            assert at == len(data)
            parts = dict(chunks)
            width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", parts["IHDR"])
            assert (depth, colour, rest) == (1, 3, [0, 0, 0]) and len(parts["PLTE"]) == 6 and parts["IEND"] == b""
            pixels = zlib.decompress(parts["IDAT"])
            row = 1 + (width + 7) // 8
            assert len(pixels) == row * height and set(pixels[::row]) == {0}
            print(" ".join(kind for kind, _ in chunks), width, height)
            """
        #expect(try Self.read(SampleFile.png(seed: seed), "a.png", by: script) == "IHDR PLTE IDAT IEND 300 300")
    }

    @Test(arguments: [0, 9, 31, 255] as [UInt8])
    func aJPEGDecodesToAllItsBlocks(_ seed: UInt8) throws {
        // Decodes segments, Huffman tables and the scan for one component. Source: ITU-T T.81 Annexes B and F
        let script = """
            import struct, sys
            data = open(sys.argv[1], "rb").read()
            assert data[:2] == b"\\xff\\xd8" and data[-2:] == b"\\xff\\xd9"
            at, tables = 2, {}
            while True:
                assert data[at] == 0xFF, at
                marker, size = data[at + 1], struct.unpack(">H", data[at + 2:at + 4])[0]
                body = data[at + 4:at + 2 + size]
                at += 2 + size
                if marker == 0xE0: assert body[:5] == b"JFIF\\0"
                if marker == 0xDB: assert len(body) == 65
                if marker == 0xC0: depth, height, width, components = struct.unpack(">BHHB", body[:6])
                if marker == 0xC4:
                    code, symbols, place = 0, {}, 17
                    for length in range(1, 17):
                        for _ in range(body[length]):
                            symbols[(length, code)] = body[place]
                            code += 1
                            place += 1
                        code <<= 1
                    assert place == len(body)
                    tables[body[0]] = symbols
                if marker == 0xDA: break
            scan = data[at:-2]
            assert b"\\xff" not in scan.replace(b"\\xff\\x00", b"")
            bits = "".join(f"{byte:08b}" for byte in scan.replace(b"\\xff\\x00", b"\\xff"))
            place = 0
            def symbol(table):
                global place
                code = 0
                for length in range(1, 17):
                    code = code << 1 | int(bits[place]); place += 1
                    if (length, code) in table: return table[(length, code)]
                raise ValueError("no such code")
            def value(count):
                global place
                if count == 0: return 0
                number = int(bits[place:place + count], 2); place += count
                return number if number >> count - 1 else number - (1 << count) + 1
            level, levels = 0, set()
            for block in range(width // 8 * (height // 8)):
                level += value(symbol(tables[0x00]))
                levels.add(level)
                index = 1
                while index < 64:
                    both = symbol(tables[0x10])
                    if both == 0: break
                    index += both >> 4
                    value(both & 15)
                    index += 1
            assert set(bits[place:]) <= {"1"} and len(bits) - place < 8
            print(depth, width, height, components, *sorted(levels))
            """
        #expect(
            try Self.read(SampleFile.jpeg(seed: seed), "a.jpg", by: script) == "8 304 304 1 \(32 + Int(seed) % 32)")
    }

    @Test func theCrossReferenceTableLocatesEachPDFObject() throws {
        let script = """
            import re, sys
            data = open(sys.argv[1], "rb").read()
            assert data.startswith(b"%PDF-1.4\\n") and data.endswith(b"%%EOF\\n")
            start = int(re.search(rb"startxref\\n(\\d+)\\n", data).group(1))
            assert data[start:].startswith(b"xref\\n0 6\\n0000000000 65535 f \\n")
            rows = data[start:].split(b"\\n")[3:8]
            for number, row in enumerate(rows, 1):
                assert len(row) == 19 and row.endswith(b" 00000 n "), row
                assert data[int(row[:10]):].startswith(b"%d 0 obj\\n" % number), number
            length, stream = re.search(rb"/Length (\\d+) >>\\nstream\\n(.*?)\\nendstream", data, re.S).groups()
            assert len(stream) == int(length)
            print(stream.decode())
            """
        let said = try Self.read(SampleFile.pdf(text: "receipt"), "a.pdf", by: script)
        #expect(said == "BT /F1 24 Tf 72 720 Td (receipt) Tj ET")
    }

    @Test func brandFilesHaveDistinctNamesAndContents() {
        let assets = DevelopmentBrand.assets
        #expect(Set(assets.map(\.name)).count == assets.count)
        #expect(Set(assets.map(\.content)).count == assets.count)
    }
}
