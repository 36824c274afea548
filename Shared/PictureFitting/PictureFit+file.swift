public import Packaging

extension PictureFit {
    /// Decodes a picture, gives it its form and encodes it.
    ///
    /// Of an animation the first frame is taken. The file has nothing of the given one but the pixels, and is always
    /// written anew, so that devices decode nothing that a stranger wrote.
    /// - Parameter bytes: JPEG, PNG or WebP, judged by content.
    /// - Returns: a PNG or a JPEG, whichever is smaller; a PNG if pixels are transparent.
    public func file(of bytes: [UInt8]) throws(PictureFitFault) -> [UInt8] {
        guard let format = PictureFormat(bytes) else { throw .notAPicture(bytes) }
        let decoder = PictureDecoder(format: format, bytes: bytes)
        let stored = try decoder.size()
        guard stored.width > 0, stored.height > 0, stored.width * stored.height <= Self.pixelLimit else {
            throw PictureFitFault(
                .tooManyPixels,
                "it has \(stored.width) x \(stored.height) pixels, at most \(Self.pixelLimit) are decoded")
        }
        let orientation = Orientation(of: bytes, format)
        var side = Self.sideLimit
        while true {
            let size = stored.within(side)
            let pixels = try decoder.pixels(size)
            let canvas = Canvas(pixels, size, orientation)
            if let file = try self.file(of: canvas) { return file }
            // Only pixels that are transparent and like noise need more.
            side = side * 2 / 3
            guard side > 50 else {
                throw PictureFitFault(.tooLarge, "it cannot be written in \(Self.sizeLimit) bytes")
            }
        }
    }

    /// Lets the libraries look at the processor, for which they may read a file: a process that may open none decodes
    /// after that.
    ///
    /// Source: libjpeg-turbo, simd/arm
    public static func prepare() {
        let fit = PictureFit(.square, on: .white)
        let pixels = [UInt8](repeating: 128, count: 8 * 8 * 3)
        if let file = try? PictureEncoder.jpeg(pixels, PictureSize(8, 8), quality: 90) { _ = try? fit.file(of: file) }
    }

    /// The qualities of JPEG that are tried. At the first one a picture of 300 pixels has some 20 to 60 kB.
    private static let qualities = [88, 70, 50, 30, 15]

    private func file(of canvas: Canvas) throws(PictureFitFault) -> [UInt8]? {
        if self.place == .trackingLogo, canvas.isTransparent {
            return try PictureEncoder.png(
                canvas.transparentPixels, canvas.size, hasAlpha: true, limit: Self.sizeLimit)
        }
        let flat = self.place == .square ? canvas.square(on: self.background) : canvas.flat(on: self.background)
        for quality in Self.qualities {
            let file = try PictureEncoder.jpeg(flat.pixels, flat.size, quality: quality)
            guard file.count <= Self.sizeLimit else { continue }
            // Drawings are smaller as PNG, photographs as JPEG.
            return try PictureEncoder.png(flat.pixels, flat.size, hasAlpha: false, limit: file.count) ?? file
        }
        return nil
    }
}

/// The reason why a picture cannot be made right.
public struct PictureFitFault: Error, Hashable, Sendable {
    public enum Reason: UInt8, Hashable, Sendable, CaseIterable {
        /// It is of no format that is decoded.
        case notAPicture = 1
        /// It has more pixels than are decoded.
        case tooManyPixels
        /// It is not as its format says.
        case damaged
        /// It cannot be written in so few bytes.
        case tooLarge
        /// Decoding needs more memory than there is.
        case memory
    }

    public let reason: Reason
    /// A sentence about the picture, which begins with "it".
    public let message: String

    public init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    public static func notAPicture(_ bytes: [UInt8]) -> PictureFitFault {
        PictureFitFault(
            .notAPicture, "it \(Picture.unknown(bytes, expected: "neither JPEG nor PNG nor WebP").message)")
    }
}

/// Width and height, in pixels.
struct PictureSize: Hashable, Sendable {
    let width: Int
    let height: Int

    init(_ width: Int, _ height: Int) {
        self.width = width
        self.height = height
    }

    var turned: PictureSize { PictureSize(self.height, self.width) }

    /// Returns the same proportions with sides of at most `side` pixels, each at least 1.
    func within(_ side: Int) -> PictureSize {
        let longest = max(self.width, self.height)
        guard longest > side else { return self }
        func scaled(_ length: Int) -> Int { max(1, (length * side + longest / 2) / longest) }
        return PictureSize(scaled(self.width), scaled(self.height))
    }
}
