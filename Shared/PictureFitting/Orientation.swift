import Packaging

/// The way in which a picture is to be turned, as cameras note it.
///
/// Source: CIPA DC-008 (Exif 2.32) §4.6.4, tag 274
enum Orientation: UInt16, Hashable, Sendable, CaseIterable {
    case upright = 1
    case mirrored, upsideDown, flipped, transposed, clockwise, transversed, counterclockwise

    /// True if width and height change places.
    var isTurned: Bool { self.rawValue >= 5 }

    /// Returns the stored pixel that is seen at a place.
    ///
    /// - Parameter size: as stored.
    func source(ofColumn x: Int, row y: Int, of size: PictureSize) -> (column: Int, row: Int) {
        let (right, bottom) = (size.width - 1, size.height - 1)
        return switch self {
        case .upright: (x, y)
        case .mirrored: (right - x, y)
        case .upsideDown: (right - x, bottom - y)
        case .flipped: (x, bottom - y)
        case .transposed: (y, x)
        case .clockwise: (y, bottom - x)
        case .transversed: (right - y, bottom - x)
        case .counterclockwise: (right - y, x)
        }
    }

    /// Reads the note of a file; `upright` if there is none or it cannot be read.
    init(of bytes: [UInt8], _ format: PictureFormat) {
        let reader = Reader(bytes: bytes)
        let notes: Int? =
            switch format {
            case .jpeg: reader.notesOfJPEG
            case .png: reader.notesOfPNG
            case .webp: reader.notesOfWebP
            }
        self = notes.flatMap { reader.orientation(at: $0) } ?? .upright
    }

    /// Reads bytes that may end anywhere.
    private struct Reader {
        let bytes: [UInt8]

        private func number(_ position: Int, _ count: Int, isLittleEndian: Bool = false) -> Int? {
            guard position >= 0, position <= self.bytes.count - count else { return nil }
            let digits = self.bytes[position..<position + count]
            return isLittleEndian
                ? digits.reversed().reduce(0) { $0 << 8 | Int($1) } : digits.reduce(0) { $0 << 8 | Int($1) }
        }

        private func has(_ text: String, at position: Int) -> Bool {
            self.bytes.dropFirst(position).starts(with: text.utf8)
        }

        /// The segment APP1 that begins with `Exif`, among those before the pixels. Source: ITU-T T.81 Annex B
        var notesOfJPEG: Int? {
            var position = 2
            while let marker = self.number(position, 2), marker != 0xFFDA, marker >= 0xFF00 {
                guard marker != 0xFFFF else {
                    position += 1
                    continue
                }
                guard let length = self.number(position + 2, 2), length >= 2 else { return nil }
                if marker == 0xFFE1, self.has("Exif\0\0", at: position + 4) { return position + 10 }
                position += 2 + length
            }
            return nil
        }

        /// Source: PNG (Third Edition) §11.3.4.5
        var notesOfPNG: Int? {
            var position = 8
            while let length = self.number(position, 4) {
                if self.has("eXIf", at: position + 4) { return position + 8 }
                position += 12 + length
            }
            return nil
        }

        /// Source: RFC 9649 §2.7.1.5
        var notesOfWebP: Int? {
            var position = 12
            while let length = self.number(position + 4, 4, isLittleEndian: true) {
                if self.has("EXIF", at: position) {
                    return position + 8 + (self.has("Exif\0\0", at: position + 8) ? 6 : 0)
                }
                position += 8 + length + length % 2
            }
            return nil
        }

        /// Layout: byte order (2), 42 (2), where the first directory is (4). A directory: the number of entries (2),
        /// entries: tag (2), type (2), count (4), value (4). Source: TIFF 6.0 §2
        func orientation(at start: Int) -> Orientation? {
            let isLittleEndian = self.has("II*\0", at: start)
            guard isLittleEndian || self.has("MM\0*", at: start) else { return nil }
            func read(_ position: Int, _ count: Int) -> Int? {
                self.number(start + position, count, isLittleEndian: isLittleEndian)
            }
            guard let directory = read(4, 4), let count = read(directory, 2) else { return nil }
            for entry in (0..<count).lazy.map({ directory + 2 + $0 * 12 }) {
                guard let tag = read(entry, 2) else { return nil }
                guard tag == 0x0112 else { continue }
                guard let value = read(entry + 8, 2) else { return nil }
                return Orientation(rawValue: UInt16(truncatingIfNeeded: value))
            }
            return nil
        }
    }
}
