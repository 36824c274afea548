import FoundationEssentials
import Kafka
import Model
import Operations

/// Formats dead letters as text for people and as JSON for programs.
///
/// Keys, reasons and values come from any client that may write to Kafka, so control characters, which a terminal would
/// interpret, are shown as escapes.
enum DeadLetterFormatter {
    /// The parts of a dead letter that a list shows.
    struct Line: Sendable {
        let position: DeadLetterPosition
        let milliseconds: Int64
        let code: String
        let order: String
        let reason: String
        let origin: String

        init(_ letter: DeadLetterRecord) {
            self.position = letter.position
            self.milliseconds = letter.record.timestampMilliseconds
            self.code = ForeignText.shortened(letter.code, 40)
            self.order = ForeignText.shortened(letter.order, 300)
            self.reason = ForeignText.shortened(letter.reason, ChangeFault.reasonLimit)
            self.origin = ForeignText.shortened(letter.origin, 300)
        }
    }

    /// Widths of the columns before the last.
    private static let widths = [12, 20, 23, 40]

    /// The consequence for a device that was not notified.
    static let pushAdvice = "the device's next notification covers everything that it missed"

    static let head = Self.columns(["LETTER", "TIME", "CODE", "ORDER", "REASON"])

    /// Returns one line of the table: `2×` precedes the reason of a dead letter with one duplicate.
    static func row(_ line: Line, copies: Int, isReplayed: Bool) -> String {
        let marks = (copies > 1 ? "\(copies)× " : "") + (isReplayed ? "(replayed) " : "")
        return self.columns([
            line.position.description, self.time(line.milliseconds), line.code, line.order,
            marks + ForeignText.shortened(line.reason, 100),
        ])
    }

    /// Returns the same line as JSON.
    static func json(_ line: Line, copies: Int, isReplayed: Bool) -> JSON {
        [
            "letter": .string(line.position.description), "time": .string(self.time(line.milliseconds)),
            "code": .string(line.code), "order": .string(line.order), "reason": .string(line.reason),
            "origin": .string(line.origin), "copies": .integer(Int64(copies)), "replayed": .bool(isReplayed),
        ]
    }

    /// Returns a line per code, such as `12 invalid-order, 3 of them replayed`, and the total.
    static func summary(_ ledger: DeadLetterIndex) -> String {
        var lines = ledger.counts.map { count in
            "\(count.letters) \(ForeignText.shortened(count.code, 40))"
                + (count.replayed > 0 ? ", \(count.replayed) of them replayed" : "")
        }
        lines.append("\(ledger.entries.count) dead letters")
        if ledger.others > 0 { lines.append("\(ledger.others) records that are not dead letters") }
        return lines.joined(separator: "\n")
    }

    static func summaryJSON(_ ledger: DeadLetterIndex) -> JSON {
        let codes = ledger.counts.map { count -> JSON in
            [
                "code": .string(count.code), "letters": .integer(Int64(count.letters)),
                "replayed": .integer(Int64(count.replayed)),
            ]
        }
        return ["counts": .array(codes), "letters": .integer(Int64(ledger.entries.count))]
    }

    /// Returns everything about a dead letter.
    static func whole(
        _ letter: DeadLetterRecord, copies: Int, isReplayed: Bool, purge: DeadLetterPurge? = nil, topics: Topics
    ) -> String {
        var lines = [
            "letter   \(topics.deadLetters)/\(letter.position)" + (copies > 1 ? ", \(copies)×" : ""),
            "time     \(self.time(letter.record.timestampMilliseconds))", "origin   \(self.safe(letter.origin))",
            "order    \(self.safe(letter.order))", "code     \(self.safe(letter.code))",
            "reason   \(self.safe(letter.reason))",
            "replay   \(self.safe(self.verdict(letter, isReplayed: isReplayed, topics: topics)))",
        ]
        if let purge { lines.append("closed   by \(self.safe(purge.by)) at \(self.time(purge.milliseconds))") }
        for header in letter.record.headers {
            lines.append("header   \(self.safe(header.name)): \(self.safe(self.text(header.value)))")
        }
        if let value = letter.record.value {
            lines.append("value    \(value.count) bytes")
            if let json = self.shown(letter) {
                lines.append(self.pretty(json))
            } else if let text = String(validating: value, as: UTF8.self) {
                lines.append(self.safe(text, keepLines: true))
            } else {
                lines.append("base64:" + Data(value).base64EncodedString())
            }
        } else {
            lines.append("value    none")
        }
        return lines.joined(separator: "\n")
    }

    static func wholeJSON(
        _ letter: DeadLetterRecord, copies: Int, isReplayed: Bool, purge: DeadLetterPurge? = nil, topics: Topics
    ) -> JSON {
        var members: [(String, JSON)] = [
            ("letter", .string(letter.position.description)),
            ("time", .string(self.time(letter.record.timestampMilliseconds))), ("code", .string(letter.code)),
            ("order", .string(letter.order)), ("reason", .string(letter.reason)), ("origin", .string(letter.origin)),
            ("copies", .integer(Int64(copies))), ("replayed", .bool(isReplayed)),
            ("replay", .string(self.verdict(letter, isReplayed: isReplayed, topics: topics))),
            (
                "headers",
                .array(
                    letter.record.headers.map {
                        ["name": .string($0.name), "value": $0.value == nil ? .null : .string(self.text($0.value))]
                    })
            ),
        ]
        if let purge {
            members.append(("closed", ["by": .string(purge.by), "time": .string(self.time(purge.milliseconds))]))
        }
        if let value = letter.record.value {
            if let json = self.shown(letter) {
                members.append(("value", json))
            } else {
                members.append(("valueBase64", .string(Data(value).base64EncodedString())))
            }
        }
        return .object(JSONObject(members))
    }

    /// Returns what `replay` would do with the dead letter, as far as that can be known without the order.
    static func verdict(_ letter: DeadLetterRecord, isReplayed: Bool, topics: Topics) -> String {
        if letter.isPush { return "cannot be replayed: it is a notification, not a change; \(self.pushAdvice)" }
        if letter.isOmitted { return "cannot be replayed: its value was too large to keep; see the origin" }
        if isReplayed { return "already replayed, so it would be skipped" }
        let back = "republishes it to \(topics.orderChanges)"
        do {
            let message = letter.replay(topics)
            let change = try OrderChange.decode(
                key: message.key, value: message.value, headers: message.headers.map { ($0.name, $0.value) })
            guard let sequence = change.sequence else { return back }
            return "\(back); the packager skips it if a change of \(change.source) after \(sequence) was applied"
        } catch {
            return "\(back), where it would be rejected again: \(error)"
        }
    }

    /// Returns a value that is JSON; nil for others. A notification is shown without the device's identifier, which is
    /// a secret: a client that has it can list the device's orders. It remains in the record.
    private static func shown(_ letter: DeadLetterRecord) -> JSON? {
        if var notification = letter.notification {
            if notification["device"] != nil { notification["device"] = "(device)" }
            return .object(notification)
        }
        return letter.record.value.flatMap { try? JSON(parsing: $0) }
    }

    /// Returns bytes as text, or in base64 if they are not UTF-8.
    private static func text(_ bytes: [UInt8]?) -> String {
        guard let bytes else { return "(none)" }
        return String(validating: bytes, as: UTF8.self) ?? "base64:" + Data(bytes).base64EncodedString()
    }

    private static func columns(_ texts: [String]) -> String {
        zip(texts, Self.widths + [0]).map { text, width in
            let text = self.safe(text)
            return text + String(repeating: " ", count: max(0, width - text.unicodeScalars.count))
        }.joined(separator: " ")
    }

    static func time(_ milliseconds: Int64) -> String {
        milliseconds < 0 ? "-" : RFC3339.format(epochSeconds: milliseconds / 1000)
    }

    /// Replaces control and formatting characters with escapes.
    static func safe(_ text: String, keepLines: Bool = false) -> String {
        var safe = ""
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control where keepLines && (scalar == "\n" || scalar == "\t"): safe.unicodeScalars.append(scalar)
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse:
                safe += "\\u{\(String(scalar.value, radix: 16))}"
            default: safe.unicodeScalars.append(scalar)
            }
        }
        return safe
    }

    /// Replaces control and formatting characters of JSON with its own escapes.
    private static func safe(_ json: JSON) -> String {
        var safe = ""
        for character in json.text.unicodeScalars.map(String.init) {
            guard self.safe(character) != character else {
                safe += character
                continue
            }
            for unit in character.utf16 { safe += "\\u" + String(UInt32(unit) + 0x10000, radix: 16).dropFirst() }
        }
        return safe
    }

    /// Formats JSON with one line per member. The parser bounds the depth.
    static func pretty(_ json: JSON, indent: String = "") -> String {
        let inner = indent + "  "
        switch json {
        case .object(let object) where !object.isEmpty:
            let members = object.members.map {
                "\(inner)\(self.safe(JSON.string($0.name))): \(self.pretty($0.value, indent: inner))"
            }
            return "{\n" + members.joined(separator: ",\n") + "\n\(indent)}"
        case .array(let elements) where !elements.isEmpty:
            return "[\n" + elements.map { inner + self.pretty($0, indent: inner) }.joined(separator: ",\n")
                + "\n\(indent)]"
        default: return self.safe(json)
        }
    }
}
