import Packaging

/// The pixels of a picture that is as small as it is to be, turned as it is to be seen.
struct Canvas: Sendable {
    let size: PictureSize
    /// Red, green and blue, multiplied by alpha, and alpha.
    private let pixels: [UInt8]

    /// - Parameters:
    ///   - pixels: as the file has them, row by row.
    ///   - size: theirs.
    init(_ pixels: [UInt8], _ size: PictureSize, _ orientation: Orientation) {
        guard orientation != .upright else {
            self.size = size
            self.pixels = pixels
            return
        }
        let seen = orientation.isTurned ? size.turned : size
        var turned = [UInt8](repeating: 0, count: pixels.count)
        for y in 0..<seen.height {
            for x in 0..<seen.width {
                let from = orientation.source(ofColumn: x, row: y, of: size)
                let (source, target) = ((from.row * size.width + from.column) * 4, (y * seen.width + x) * 4)
                for index in 0..<4 { turned[target + index] = pixels[source + index] }
            }
        }
        self.size = seen
        self.pixels = turned
    }

    /// True if a pixel is not opaque.
    var isTransparent: Bool { stride(from: 3, to: self.pixels.count, by: 4).contains { self.pixels[$0] != 255 } }

    /// Red, green and blue, not multiplied by alpha, and alpha.
    var transparentPixels: [UInt8] {
        var pixels = self.pixels
        for start in stride(from: 0, to: pixels.count, by: 4) {
            let alpha = Int(pixels[start + 3])
            guard alpha > 0 else { continue }
            for index in start..<start + 3 {
                pixels[index] = UInt8(clamping: (Int(pixels[index]) * 255 + alpha / 2) / alpha)
            }
        }
        return pixels
    }

    /// Returns the picture on a colour: red, green and blue.
    func flat(on colour: PictureFit.Colour) -> (pixels: [UInt8], size: PictureSize) {
        self.flat(on: colour, size: self.size)
    }

    /// Returns the picture in the middle of a square of a colour: red, green and blue.
    func square(on colour: PictureFit.Colour) -> (pixels: [UInt8], size: PictureSize) {
        let side = max(self.size.width, self.size.height)
        return self.flat(on: colour, size: PictureSize(side, side))
    }

    private func flat(
        on colour: PictureFit.Colour, size: PictureSize
    ) -> (pixels: [UInt8], size: PictureSize) {
        let below = [colour.red, colour.green, colour.blue]
        var flat = [UInt8](repeating: 0, count: size.width * size.height * 3)
        for index in flat.indices { flat[index] = below[index % 3] }
        let (left, top) = ((size.width - self.size.width) / 2, (size.height - self.size.height) / 2)
        var source = 0
        for y in 0..<self.size.height {
            var target = ((top + y) * size.width + left) * 3
            for _ in 0..<self.size.width {
                let rest = 255 - Int(self.pixels[source + 3])
                for index in 0..<3 {
                    let light = Int(self.pixels[source + index]) + (Int(below[index]) * rest + 127) / 255
                    flat[target + index] = UInt8(clamping: light)
                }
                (source, target) = (source + 4, target + 3)
            }
        }
        return (flat, size)
    }
}
