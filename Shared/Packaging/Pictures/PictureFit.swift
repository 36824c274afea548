/// The form that a fetched picture is given.
///
/// Source: Wallet Orders §2.6
public struct PictureFit: Hashable, Sendable, CustomStringConvertible {
    /// The place in an order that shows the picture.
    public enum Place: UInt8, Hashable, Sendable, CaseIterable {
        /// A line item, or the merchant's logo: an opaque square.
        case square
        /// A logo of the order provider, of which there is one for light and one for dark surroundings: as wide as it
        /// is, and transparent where it is.
        case trackingLogo
    }

    /// A colour without transparency.
    public struct Colour: Hashable, Sendable, CustomStringConvertible {
        public let red: UInt8
        public let green: UInt8
        public let blue: UInt8

        public init(red: UInt8, green: UInt8, blue: UInt8) {
            self.red = red
            self.green = green
            self.blue = blue
        }

        /// Parses `#` and six hexadecimal digits; nil for anything else.
        public init?(_ text: String) {
            let digits = Array(text.utf8)
            guard digits.count == 7, digits[0] == UInt8(ascii: "#"), text.dropFirst().allSatisfy(\.isHexDigit),
                let number = UInt32(text.dropFirst(), radix: 16)
            else { return nil }
            self.init(
                red: UInt8(truncatingIfNeeded: number >> 16), green: UInt8(truncatingIfNeeded: number >> 8),
                blue: UInt8(truncatingIfNeeded: number))
        }

        public static let white = Colour(red: 255, green: 255, blue: 255)

        /// Three numbers, as a picture's record has them.
        public var description: String { "\(self.red) \(self.green) \(self.blue)" }
    }

    public let place: Place
    /// The colour below transparent pixels and beside a picture that is no square.
    public let background: Colour

    public init(_ place: Place, on background: Colour) {
        self.place = place
        self.background = background
    }

    /// Differs for forms that may make different files of one picture.
    public var description: String { "\(self.place) \(self.background)" }

    /// The most bytes of a picture as it is fetched.
    public static let fetchLimit = 8 << 20
    /// The longest side, in pixels. Larger pictures are made smaller, never the other way round.
    public static let sideLimit = 300
    /// The most bytes of a file.
    public static let sizeLimit = 100_000
    /// The most pixels of a picture that is decoded.
    public static let pixelLimit = 40_000_000
}

/// The formats of fetched pictures that can be given a form.
public enum PictureFormat: Hashable, Sendable, CaseIterable {
    case jpeg, png, webp

    /// Recognizes a file by its first bytes; nil for any other format.
    ///
    public init?(_ bytes: [UInt8]) {
        if bytes.starts(with: Picture.jpegStart) {
            self = .jpeg
        } else if bytes.starts(with: Picture.pngStart) {
            self = .png
        } else if Picture.isWebP(bytes) {
            self = .webp
        } else {
            return nil
        }
    }
}
