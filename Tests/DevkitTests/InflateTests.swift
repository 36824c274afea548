import Testing

@testable import Devkit

@Suite(.timeLimit(.minutes(1)))
struct InflateTests {
    /// DEFLATE data under names `x` and its inflated content under `x =`, made by Python's zlib.
    private static let streams = Result {
        try PythonZip.made(
            by: """
                import base64, json, random, zlib
                random.seed(1)
                contents = {
                    "nothing": b"", "one byte": b"a", "zeros": bytes(66000),
                    "text": b"".join(b"line %d of some text\\n" % n for n in range(500)),
                    "random": random.randbytes(66000), "pairs": b"ab" * 5000,
                    "skewed": bytes(random.choice(b"aaaaaaaaabbbbccd") for _ in range(5000)),
                    "far": (far := random.randbytes(32768)) + far[:1000],
                }
                made = {}
                for name, content in contents.items():
                    for level in (0, 1, 6, 9):
                        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE):
                            one = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
                            half = len(content) // 2
                            data = one.compress(content[:half])
                            if level == 1: data += one.flush(zlib.Z_SYNC_FLUSH)
                            if level == 9: data += one.flush(zlib.Z_PARTIAL_FLUSH)
                            data += one.compress(content[half:]) + one.flush()
                            made[f"{name}, level {level}, strategy {strategy}"] = data
                            made[f"{name}, level {level}, strategy {strategy} ="] = content
                print(json.dumps({name: base64.b64encode(data).decode() for name, data in made.items()}))
                """)
    }

    @Test func streamsDeflatedByPythonAreInflated() throws {
        let streams = try Self.streams.get()
        #expect(streams.count == 2 * 8 * 16)
        for (name, data) in streams where !name.hasSuffix("=") {
            let content = try #require(streams["\(name) ="])
            #expect(try Inflate.decompress(data[...], limit: content.count) == content, "\(name)")
        }
    }

    /// Of streams with one bit changed or cut short, we accept exactly those that zlib accepts, with the same content.
    @Test func brokenStreamsAreRefusedWhereZlibRefusesThem() throws {
        let streams = try PythonZip.made(
            by: """
                import base64, json, random, zlib
                random.seed(2)
                content = bytes(random.choice(b"aaaaaaaaabbbbccd") for _ in range(600)) + b"some text, " * 9
                made = {}
                for level, strategy in ((9, 0), (9, zlib.Z_FIXED), (0, 0)):
                    one = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
                    data = one.compress(content) + one.flush()
                    for bit in range(min(len(data), 120) * 8):
                        broken = bytearray(data)
                        broken[bit // 8] ^= 1 << bit % 8
                        name = f"level {level}, strategy {strategy}, bit {bit}"
                        made[name] = bytes(broken)
                        try:
                            reader = zlib.decompressobj(-15)
                            got = reader.decompress(bytes(broken))
                            if reader.eof and not reader.unused_data and len(got) <= 4000: made[name + " ="] = got
                        except zlib.error: pass
                print(json.dumps({name: base64.b64encode(data).decode() for name, data in made.items()}))
                """)
        for (name, data) in streams where !name.hasSuffix("=") {
            #expect((try? Inflate.decompress(data[...], limit: 4000)) == streams["\(name) ="], "\(name)")
        }
    }

    @Test func contentOneByteOverTheLimitIsRefused() throws {
        let streams = try Self.streams.get()
        for name in ["text", "random", "zeros"].map({ "\($0), level 6, strategy 0" }) {
            let data = try #require(streams[name])
            let content = try #require(streams["\(name) ="])
            let error = #expect(throws: ToolError.self) {
                try Inflate.decompress(data[...], limit: content.count - 1)
            }
            #expect(error?.message == "inflating: more than \(content.count - 1) bytes come out")
        }
    }

    @Test func truncatedStreamsAreRefusedAndFlippedBitsNeverTrap() throws {
        for name in ["skewed, level 9, strategy 0", "one byte, level 6, strategy 4", "text, level 0, strategy 0"] {
            let data = try #require(try Self.streams.get()[name]).prefix(120)
            for count in 0..<data.count - 1 {
                #expect(throws: ToolError.self) { try Inflate.decompress(data.prefix(count), limit: 1 << 20) }
            }
            for bit in 0..<data.count * 8 {
                var changed = Array(data)
                changed[bit / 8] ^= 1 << UInt8(bit % 8)
                let output = try? Inflate.decompress(changed[...], limit: 1000)
                #expect(output == nil || (output?.count ?? 0) <= 1000)
            }
        }
    }

    /// Source: RFC 1951 §3.2.3 to §3.2.7; each byte is filled from its lowest bit.
    @Test(
        arguments: [
            ([], "ends in the middle"), ([0b111], "block type 3"), ([0b001, 1, 0, 0, 0], "stored block's length"),
            ([0b001, 2, 0, 0xFD, 0xFF, 65], "ends in the middle"),
            ([0b001, 0, 0, 0xFF, 0xFF, 9], "after the last block"),
            ([0x03, 0x02], "before the first byte"), ([0x1B, 0x03], "length code 286"),
            ([0x73, 0x04, 0x3E], "distance code 30"), ([0xFD, 0x00, 0x00], "too many codes in a block"),
            ([0x05, 0xE0, 0x93, 0x24, 0x49, 0x92, 0x24, 0x49, 0x92, 0x00], "code length code has too many"),
            ([0x05, 0x00, 0x80, 0xC0, 0x5F, 0x1B], "code length code has too many or too few"),
            ([0x05, 0x00, 0x02, 0x24], "repeated length"),
            ([0x05, 0x00, 0x80, 0xE4, 0x7F, 0x1B], "without an end code"),
            ([0x05, 0x00, 0x80, 0xE4, 0xFF, 0x1F], "more lengths than codes"),
        ] as [([UInt8], String)])
    func aMalformedBlockIsNamed(_ data: [UInt8], _ reason: String) {
        let error = #expect(throws: ToolError.self) { try Inflate.decompress(data[...], limit: 1000) }
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
    }
}
