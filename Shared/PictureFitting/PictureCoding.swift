import CPictures
import Packaging

// Owner: each call of `CPictures` owns what it allocates until it returns; the bytes of an encoded file are copied and
// freed at once.
// Threads: any; the calls share nothing.
// Bounds: what a picture's format forces its decoder to keep, at most four bytes a pixel; six or eight for a
// progressive JPEG whose colours have the resolution of its brightness.

extension PictureFormat {
    fileprivate var code: Int32 {
        let format =
            switch self {
            case .jpeg: cpictures_jpeg
            case .png: cpictures_png
            case .webp: cpictures_webp
            }
        return Int32(format.rawValue)
    }
}

/// Decodes one file.
struct PictureDecoder {
    let format: PictureFormat
    let bytes: [UInt8]

    /// Returns the size that a picture says it has, as stored.
    func size() throws(PictureFitFault) -> PictureSize {
        var header = cpictures_header()
        try unsafe calling { message in
            unsafe cpictures_read_header(self.format.code, self.bytes, self.bytes.count, &header, message)
        }
        return PictureSize(Int(header.width), Int(header.height))
    }

    /// Returns red, green and blue, multiplied by alpha, and alpha of each pixel of a smaller picture.
    func pixels(_ size: PictureSize) throws(PictureFitFault) -> [UInt8] {
        var pixels = [UInt8](repeating: 0, count: size.width * size.height * 4)
        try unsafe calling { message in
            unsafe cpictures_decode(
                self.format.code, self.bytes, self.bytes.count, UInt32(size.width), UInt32(size.height), &pixels,
                message)
        }
        return pixels
    }
}

/// Encodes pixels of three bytes, or four with alpha.
enum PictureEncoder {
    static func jpeg(_ pixels: [UInt8], _ size: PictureSize, quality: Int) throws(PictureFitFault) -> [UInt8] {
        try unsafe Self.file { output, count, message in
            unsafe cpictures_encode_jpeg(
                pixels, UInt32(size.width), UInt32(size.height), Int32(quality), output, count, message)
        }
    }

    /// - Returns: nil if the file would have more than `limit` bytes.
    static func png(
        _ pixels: [UInt8], _ size: PictureSize, hasAlpha: Bool, limit: Int
    ) throws(PictureFitFault) -> [UInt8]? {
        do throws(PictureFitFault) {
            return try unsafe Self.file { output, count, message in
                unsafe cpictures_encode_png(
                    pixels, UInt32(size.width), UInt32(size.height), hasAlpha ? 1 : 0, limit, output, count, message)
            }
        } catch {
            guard error.reason == .tooManyPixels else { throw error }
            return nil
        }
    }

    @unsafe private static func file(
        _ encode: (
            UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, UnsafeMutablePointer<Int>, UnsafeMutablePointer<CChar>
        ) -> Int32
    ) throws(PictureFitFault) -> [UInt8] {
        var output: UnsafeMutablePointer<UInt8>?
        var count = 0
        try unsafe calling { message in unsafe encode(&output, &count, message) }
        defer { unsafe cpictures_free(output) }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }
}

/// Calls a function that returns a status, and a message if it fails.
@unsafe private func calling(_ body: (UnsafeMutablePointer<CChar>) -> Int32) throws(PictureFitFault) {
    var message = [CChar](repeating: 0, count: Int(CPICTURES_MESSAGE))
    let status = unsafe message.withUnsafeMutableBufferPointer { buffer in
        guard let base = buffer.baseAddress else { return Int32(cpictures_no_memory.rawValue) }
        return unsafe body(base)
    }
    let text = String(decoding: message.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    switch UInt32(bitPattern: status) {
    case cpictures_done.rawValue: return
    case cpictures_too_large.rawValue: throw PictureFitFault(.tooManyPixels, "it is too large: \(text)")
    case cpictures_no_memory.rawValue: throw PictureFitFault(.memory, "it needs too much memory: \(text)")
    default: throw PictureFitFault(.damaged, "it is damaged: \(text)")
    }
}
