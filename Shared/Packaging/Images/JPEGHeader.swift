/// Follows the segments of a JPEG up to its scan.
///
/// Layout: markers of FF and a code, most with a length (2, big-endian, counting itself) and data. The frame header
/// (SOF): precision, height (2), width (2), number of components, 3 bytes for each. A scan (SOS) begins the pixels.
/// Source: ITU-T T.81 Annex B
enum JPEGHeader {
    /// - Parameter bytes: the whole file, which begins with the start marker.
    static func read(_ bytes: Span<UInt8>) throws(PictureFault) -> Picture {
        let cutOff = PictureFault("is a JPEG that ends in the middle; export or copy it again")
        var position = 2
        var frame: Picture?
        while true {
            guard position < bytes.count else { throw cutOff }
            guard bytes[position] == 0xFF else {
                throw PictureFault("is a JPEG that is damaged: byte \(position) should begin a segment")
            }
            // Any number of FF may precede a marker. Source: T.81 §B.1.1.2
            while position < bytes.count, bytes[position] == 0xFF { position += 1 }
            guard position < bytes.count else { throw cutOff }
            let marker = bytes[position]
            position += 1
            // Without a length: TEM and the restart markers. Source: T.81 table B.1
            if marker == 0x01 || (0xD0...0xD7).contains(marker) { continue }
            guard marker != 0xD9, marker != 0xD8, marker != 0 else {
                throw PictureFault("is a JPEG without pixels")
            }
            guard position + 2 <= bytes.count else { throw cutOff }
            let length = Int(bytes[position]) << 8 | Int(bytes[position + 1])
            guard length >= 2 else {
                throw PictureFault("is a JPEG that is damaged: the segment at byte \(position) has no length")
            }
            guard length <= bytes.count - position else { throw cutOff }
            if self.isFrame(marker) {
                guard frame == nil else { throw PictureFault("is a JPEG with two frames") }
                frame = try self.frame(bytes.extracting(position..<position + length), marker)
            }
            position += length
            guard marker == 0xDA else { continue }
            guard let frame else { throw PictureFault("is a JPEG without a frame header (SOF)") }
            guard self.hasEnd(bytes, from: position) else { throw cutOff }
            return frame
        }
    }

    /// Returns true for frames of all kinds; C4, C8 and CC are something else. Source: T.81 table B.1
    private static func isFrame(_ marker: UInt8) -> Bool {
        (0xC0...0xCF).contains(marker) && marker != 0xC4 && marker != 0xC8 && marker != 0xCC
    }

    /// - Parameter segment: the bytes of the segment, beginning with its length.
    private static func frame(_ segment: Span<UInt8>, _ marker: UInt8) throws(PictureFault) -> Picture {
        // Baseline, extended and progressive; lossless, hierarchical and arithmetic ones are rarely supported by
        // decoders.
        guard marker <= 0xC2 else { throw PictureFault("is a JPEG of a rare kind; save it as baseline or progressive") }
        guard segment.count >= 8, segment.count == 8 + 3 * Int(segment[7]), segment[7] > 0 else {
            throw PictureFault("is a JPEG that is damaged: its frame header is too short or too long")
        }
        guard segment[2] == 8 else { throw PictureFault("is a JPEG with \(segment[2]) bits a colour; save it with 8") }
        return Picture(
            format: .jpeg, width: Int(segment[5]) << 8 | Int(segment[6]),
            height: Int(segment[3]) << 8 | Int(segment[4]))
    }

    /// Returns true if an end marker follows. Among the pixels an FF is followed by 0 or a restart marker, so they
    /// cannot contain one. Source: T.81 §B.1.1.5
    private static func hasEnd(_ bytes: Span<UInt8>, from start: Int) -> Bool {
        var position = start
        while position + 1 < bytes.count {
            if bytes[position] == 0xFF, bytes[position + 1] == 0xD9 { return true }
            position += 1
        }
        return false
    }
}
