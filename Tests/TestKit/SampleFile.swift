/// Small pictures and documents that are valid files, made without a library.
public enum SampleFile {
    /// Returns a PNG of `side` × `side` pixels in two colours, striped so that two seeds look different.
    ///
    /// One bit per pixel keeps it at 12 kB (for 300 pixels) in a stored block, without a compressor.
    /// Source: PNG (ISO/IEC 15948) §5, §11; RFC 1950, RFC 1951 §3.2.4
    public static func png(seed: UInt8, side: Int = 300) -> [UInt8] {
        let rowBytes = (side + 7) / 8
        var pixels: [UInt8] = []
        for row in 0..<side {
            pixels.append(0)
            let stripe = (row / 20 + Int(seed)) % 3 == 0
            pixels += (0..<rowBytes).map { stripe == (($0 + Int(seed)) % 5 < 2) ? 0xFF : 0x00 }
        }
        let size = UInt32(side).bigEndianBytes
        let colours: [UInt8] = [seed &* 53, seed &* 91 | 0x20, seed &* 17 | 0x40, 0xF5, 0xF2, 0xEC]
        return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
            + Self.chunk("IHDR", size + size + [1, 3, 0, 0, 0])
            + Self.chunk("PLTE", colours) + Self.chunk("IDAT", Self.zlib(pixels)) + Self.chunk("IEND", [])
    }

    /// Returns a grey JPEG of 304×304 pixels. Source: ITU-T T.81 Annex B, F
    ///
    /// All blocks have the same brightness, so each block but the first has two codes: no difference, end of block.
    public static func jpeg(seed: UInt8) -> [UInt8] {
        let side = 304
        let quantization = [UInt8](repeating: 8, count: 64)
        // One Huffman code of length 1 for the first symbol, one of length 2 for the second.
        func table(_ kind: UInt8, _ symbols: [UInt8]) -> [UInt8] {
            [kind, 1, 1] + [UInt8](repeating: 0, count: 14) + symbols
        }
        func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
            [0xFF, marker] + UInt16(data.count + 2).bigEndianBytes + data
        }
        var bits = BitWriter()
        // The first block's difference has six bits: its category, 6, is the second symbol of the table, with code 10.
        let level = 32 + Int(seed) % 32
        bits.write(0b10, count: 2)
        bits.write(level, count: 6)
        bits.write(0b0, count: 1)
        for _ in 1..<(side / 8) * (side / 8) { bits.write(0b00, count: 2) }
        let edge = UInt16(side).bigEndianBytes
        return [0xFF, 0xD8] + segment(0xE0, Array("JFIF".utf8) + [0, 1, 1, 0, 0, 1, 0, 1, 0, 0])
            + segment(0xDB, [0] + quantization) + segment(0xC0, [8] + edge + edge + [1, 1, 0x11, 0])
            + segment(0xC4, table(0x00, [0, 6])) + segment(0xC4, table(0x10, [0, 0x11]))
            + segment(0xDA, [1, 1, 0x00, 0, 63, 0]) + bits.finished + [0xFF, 0xD9]
    }

    /// Returns a PDF of one page with one line of text. Source: ISO 32000-1 §7.5
    public static func pdf(text: String) -> [UInt8] {
        let content = "BT /F1 24 Tf 72 720 Td (\(text)) Tj ET"
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
                + "/Resources << /Font << /F1 5 0 R >> >> >>",
            "<< /Length \(content.utf8.count) >>\nstream\n\(content)\nendstream",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        ]
        var file = "%PDF-1.4\n"
        var offsets: [Int] = []
        for (index, object) in objects.enumerated() {
            offsets.append(file.utf8.count)
            file += "\(index + 1) 0 obj\n\(object)\nendobj\n"
        }
        let start = file.utf8.count
        file += "xref\n0 \(objects.count + 1)\n0000000000 65535 f \n"
        for offset in offsets {
            let digits = String(offset)
            file += String(repeating: "0", count: 10 - digits.count) + digits + " 00000 n \n"
        }
        file += "trailer\n<< /Size \(objects.count + 1) /Root 1 0 R >>\nstartxref\n\(start)\n%%EOF\n"
        return Array(file.utf8)
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let body = Array(type.utf8) + data
        return UInt32(data.count).bigEndianBytes + body + CRC32.checksum(body).bigEndianBytes
    }

    private static func zlib(_ bytes: [UInt8]) -> [UInt8] {
        var first: UInt32 = 1
        var second: UInt32 = 0
        for byte in bytes {
            first = (first + UInt32(byte)) % 65521
            second = (second + first) % 65521
        }
        // At most 65,535 bytes: one stored block, which is the last.
        let length = UInt16(bytes.count)
        let sizes = [UInt8(length & 0xFF), UInt8(length >> 8), UInt8(~length & 0xFF), UInt8(~length >> 8)]
        return [0x78, 0x01, 0x01] + sizes + bytes + (second << 16 | first).bigEndianBytes
    }
}

/// A writer of bits, highest first, that stuffs a zero byte after each byte 0xFF. Source: ITU-T T.81 F.1.2.3
private struct BitWriter {
    private var bytes: [UInt8] = []
    private var pending: UInt8 = 0
    private var count = 0

    mutating func write(_ value: Int, count: Int) {
        for shift in stride(from: count - 1, through: 0, by: -1) {
            self.pending = self.pending << 1 | UInt8(value >> shift & 1)
            self.count += 1
            if self.count == 8 { self.flush() }
        }
    }

    private mutating func flush() {
        self.bytes.append(self.pending)
        if self.pending == 0xFF { self.bytes.append(0) }
        self.pending = 0
        self.count = 0
    }

    /// The bytes, with the last one filled up with ones.
    var finished: [UInt8] {
        var copy = self
        while copy.count != 0 { copy.write(1, count: 1) }
        return copy.bytes
    }
}

extension FixedWidthInteger {
    fileprivate var bigEndianBytes: [UInt8] {
        (0..<Self.bitWidth / 8).reversed().map { UInt8(truncatingIfNeeded: self >> Self($0 * 8)) }
    }
}
