import CoreMetrics
import Logging
import Model
import NIOCore
import NIOHTTP1

/// `POST /v1/log`: errors reported by a device.
///
/// Anyone can send this, so none of it is trusted: it is counted, bounded and made harmless before it is logged.
/// Source: Wallet Orders §1.2e
struct LogEndpoint: Sendable {
    let metrics: GatewayMetrics
    /// The logger for messages; nil to only count them.
    let logger: Logger?

    /// Logs messages. Wallet accepts only 200 as success, so excess ones are counted and dropped silently.
    ///
    /// - Parameters:
    ///   - body: `{"logs": ["…"]}` or a bare array of strings.
    ///   - admit: returns the number of messages that may be logged.
    func answer(_ body: ByteBuffer, admit: (Int) -> Int) -> Answer {
        guard let messages = Self.messages(body) else {
            return .failure(.badRequest, "the body must be {\"logs\": [\"…\"]}")
        }
        self.metrics.deviceLogs.increment(by: messages.count)
        guard let logger = self.logger else { return Answer(.ok) }
        let admitted = messages.isEmpty ? 0 : admit(messages.count)
        self.metrics.deviceLogsDropped.increment(by: messages.count - admitted)
        for message in messages.prefix(admitted) {
            logger.info("message from a device", metadata: ["text": "\(DeviceMessage.harmless(message))"])
        }
        return Answer(.ok)
    }

    static func messages(_ body: ByteBuffer) -> [String]? {
        guard let json = try? JSON(parsing: Array(body.readableBytesView)) else { return nil }
        guard let array = json.array ?? json.object?["logs"]?.array else { return nil }
        let messages = array.compactMap(\.string)
        return messages.count == array.count ? messages : nil
    }
}

/// A message from a device, made safe for the log: without text that could forge a line, control a terminal, or
/// identify a device.
///
/// A device's identifier is all that is needed to request its list of changes, a token all that is needed for its
/// order. Wallet writes identifiers into its messages, and anyone may send anything.
enum DeviceMessage {
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

    static func harmless(_ message: String) -> String {
        let scalars = message.unicodeScalars.prefix(Self.characterLimit).map { scalar -> Unicode.Scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: " "
            default: scalar
            }
        }
        return Self.withoutNamed(Self.withoutRuns(scalars[...]))
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
