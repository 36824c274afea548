/// A text from outside, such as a message of a device, made safe for the log: without anything that could forge a line,
/// control a terminal, or identify a device.
///
/// A device's identifier is all that is needed to request its list of changes, a token all that is needed for its
/// order. Wallet writes identifiers into its messages, and anyone may send anything.
public enum ForeignText {
    /// Most Unicode scalars of a message.
    static let characterLimit = 500
    /// The length from which on consecutive characters of an identifier or a token are hidden.
    static let runLimit = 16

    /// Letters alone count as words up to this length, such as names of classes, unless they are hexadecimal digits.
    private static let wordLimit = 40
    /// A word after one of these is hidden, even if words of `fillers` are in between.
    private static let identifierLabels: Set<String> = [
        "appleorder", "device", "devices", "devicelibraryidentifier", "authorization",
    ]
    private static let fillers: Set<String> = ["identifier", "id", "library", "token", "is", "with"]

    /// Returns at most 500 Unicode scalars of a text, with `…` for what could identify a device.
    public static func harmless(_ message: String) -> String {
        let scalars = message.unicodeScalars.prefix(Self.characterLimit).map { scalar -> Unicode.Scalar in
            scalar.isHidden ? " " : scalar
        }
        return Self.withoutNamed(Self.withoutRuns(scalars[...]))
    }

    /// Shortens a text to a number of scalars, since a single character may be of any length.
    public static func shortened(_ text: String, _ limit: Int) -> String {
        let scalars = text.unicodeScalars
        return scalars.count <= limit ? text : String(scalars.prefix(limit - 1)) + "…"
    }

    private static func withoutRuns(_ scalars: ArraySlice<Unicode.Scalar>) -> ArraySlice<Unicode.Scalar> {
        Self.replacing(scalars, where: Self.isOfIdentifier) { run in
            guard run.count >= Self.runLimit else { return false }
            let isWord = run.allSatisfy(\.properties.isAlphabetic) && !run.allSatisfy(\.properties.isASCIIHexDigit)
            return !isWord || run.count > Self.wordLimit
        }
    }

    private static func withoutNamed(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var isAwaited = false
        let shown = Self.replacing(scalars, where: Self.isOfWord) { word in
            let text = String(String.UnicodeScalarView(word)).lowercased()
            if Self.identifierLabels.contains(text) {
                isAwaited = true
                return false
            }
            guard isAwaited, !Self.fillers.contains(text) else { return false }
            isAwaited = false
            return true
        }
        return String(String.UnicodeScalarView(shown))
    }

    /// Replaces some of the longest runs of certain scalars.
    private static func replacing(
        _ scalars: ArraySlice<Unicode.Scalar>, where isMember: (Unicode.Scalar) -> Bool,
        if isHidden: (ArraySlice<Unicode.Scalar>) -> Bool
    ) -> ArraySlice<Unicode.Scalar> {
        var shown: [Unicode.Scalar] = []
        var rest = scalars
        while let first = rest.first {
            guard isMember(first) else {
                shown.append(rest.removeFirst())
                continue
            }
            let run = rest.prefix(while: isMember)
            rest = rest[run.endIndex...]
            if isHidden(run) { shown.append("…") } else { shown += run }
        }
        return shown[...]
    }

    /// True for the characters of hexadecimal, base64 in both alphabets, and UUIDs.
    private static func isOfIdentifier(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "+", "/", "-", "_": true
        default: false
        }
    }

    /// True for everything but blanks and the characters between a name and its value, or around a value.
    private static func isOfWord(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case " ", "\"", "'", ":", "=", "/", "(", ")", "<", ">", "[", "]", "{", "}", ",", ";": false
        default: true
        }
    }
}

extension Unicode.Scalar {
    /// True for what ends a line, controls a terminal, or reverses the direction of writing.
    var isHidden: Bool {
        if self.isASCII { return self.value < 0x20 || self.value == 0x7F }
        return switch self.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
