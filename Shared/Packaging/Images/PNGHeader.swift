/// Follows the chunks of a PNG.
///
/// Layout: 8 bytes of signature, then chunks: length (4, big-endian), type (4), data, CRC-32 of type and data (4). The
/// first is IHDR: width (4), height (4), bit depth, colour type, compression, filter, interlace.
/// Source: ISO/IEC 15948 §5.3, §11.2.2
enum PNGHeader {
    private static let headerLength = 13

    /// - Parameter bytes: the whole file, which begins with the signature.
    static func read(_ bytes: Span<UInt8>) throws(PictureFault) -> Picture {
        let start = Picture.pngStart.count
        guard bytes.count >= start + 12 + self.headerLength,
            self.number(bytes, start) == self.headerLength, self.type(bytes, start) == "IHDR"
        else { throw PictureFault("is a PNG that does not begin with its header (IHDR)") }
        let data = start + 8
        guard self.number(bytes, data + self.headerLength) == self.checksum(bytes, from: start + 4, count: 17) else {
            throw PictureFault("is a PNG whose header is damaged: its checksum is wrong")
        }
        guard self.isKnown(depth: bytes[data + 8], colour: bytes[data + 9]), bytes[data + 10] == 0,
            bytes[data + 11] == 0, bytes[data + 12] <= 1
        else { throw PictureFault("is a PNG of a kind that the standard does not know") }
        try self.followChunks(bytes, from: data + self.headerLength + 4)
        return Picture(format: .png, width: self.number(bytes, data), height: self.number(bytes, data + 4))
    }

    /// Walks to the end chunk, with pixels on the way. Anything after the end is ignored.
    private static func followChunks(_ bytes: Span<UInt8>, from first: Int) throws(PictureFault) {
        var position = first
        var hasPixels = false
        while bytes.count - position >= 12 {
            let length = self.number(bytes, position)
            let type = self.type(bytes, position)
            guard length <= bytes.count - position - 12 else { break }
            if type == "IDAT" { hasPixels = true }
            if type == "IEND" {
                guard hasPixels else { throw PictureFault("is a PNG without pixels (IDAT)") }
                return
            }
            position += 12 + length
        }
        throw PictureFault("is a PNG that ends in the middle; export or copy it again")
    }

    /// Source: ISO/IEC 15948 §11.2.2, table 11.1
    private static func isKnown(depth: UInt8, colour: UInt8) -> Bool {
        switch colour {
        case 0: [1, 2, 4, 8, 16].contains(depth)
        case 3: [1, 2, 4, 8].contains(depth)
        case 2, 4, 6: depth == 8 || depth == 16
        default: false
        }
    }

    private static func type(_ bytes: Span<UInt8>, _ chunk: Int) -> String {
        String(decoding: (4..<8).map { bytes[chunk + $0] }, as: UTF8.self)
    }

    private static func number(_ bytes: Span<UInt8>, _ position: Int) -> Int {
        (0..<4).reduce(0) { $0 << 8 | Int(bytes[position + $1]) }
    }

    private static func checksum(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Int {
        Int(zipChecksum((start..<start + count).map { bytes[$0] }))
    }
}
