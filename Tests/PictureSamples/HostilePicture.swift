import CPictureSamples

/// Files that cost a decoder far more than they cost who sends them.
public enum HostilePicture {
    /// A PNG whose pixels have a gigabyte.
    ///
    /// - Parameter side: in pixels, as its header says.
    public static func inflating(side: Int) -> [UInt8] {
        var output: UnsafeMutablePointer<UInt8>?
        let count = unsafe picture_samples_inflating(UInt32(side), &output)
        defer { unsafe picture_samples_free(output) }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }

    /// A JPEG whose header says that it has other sides.
    public static func claiming(width: Int, height: Int, isProgressive: Bool = false) -> [UInt8] {
        var file = Drawing(16, 16).jpeg(isProgressive ? .cmyk : .colour, isProgressive: isProgressive)
        // The frame header: marker, length, precision, height, width. Source: ITU-T T.81 §B.2.2
        guard let frame = file.indices.first(where: { file[$0...].starts(with: [0xFF, isProgressive ? 0xC2 : 0xC0]) })
        else { return file }
        for (offset, length) in [(5, height), (7, width)] {
            file[frame + offset] = UInt8(truncatingIfNeeded: length >> 8)
            file[frame + offset + 1] = UInt8(truncatingIfNeeded: length)
        }
        return file
    }

    /// A grey, progressive JPEG of 40 megapixels, each of whose scans says in 40 bytes that nothing is new.
    ///
    /// Source: ITU-T T.81 Annex G
    public static func scanning(scans: Int) -> [UInt8] {
        let blocks = 790
        func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
            [0xFF, marker, UInt8((data.count + 2) >> 8), UInt8((data.count + 2) & 0xFF)] + data
        }
        func table(_ kind: UInt8, _ symbol: UInt8) -> [UInt8] {
            segment(0xC4, [kind, 1] + [UInt8](repeating: 0, count: 15) + [symbol])
        }
        let side = [UInt8((blocks * 8) >> 8), UInt8((blocks * 8) & 0xFF)]
        var file: [UInt8] = [0xFF, 0xD8] + segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
        file += segment(0xC2, [8] + side + side + [1, 1, 0x11, 0])
        // The only code of each table has one bit, a zero: no difference, and a run of 16,384 blocks and more without
        // anything, whose other 14 bits are how many more.
        file += table(0x00, 0) + table(0x10, 0xE0)
        file += segment(0xDA, [1, 1, 0x00, 0, 0, 0]) + [UInt8](repeating: 0, count: (blocks * blocks + 7) / 8)
        var runs: [UInt8] = []
        var bits: (value: Int, count: Int) = (0, 0)
        var left = blocks * blocks
        while left > 0 {
            let run = min(max(left, 16_384), 32_767)
            bits = (bits.value << 15 | (run - 16_384), bits.count + 15)
            left -= run
            while bits.count >= 8 {
                let byte = UInt8(truncatingIfNeeded: bits.value >> (bits.count - 8))
                runs += byte == 0xFF ? [byte, 0] : [byte]
                bits = (bits.value & (1 << (bits.count - 8) - 1), bits.count - 8)
            }
        }
        runs.append(UInt8(truncatingIfNeeded: bits.value << (8 - bits.count)))
        let scan = segment(0xDA, [1, 1, 0x00, 1, 63, 0]) + runs
        for _ in 0..<scans { file += scan }
        return file + [0xFF, 0xD9]
    }
}
