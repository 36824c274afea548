import FoundationEssentials
import Logging

/// A log handler that writes each event as one line: JSON for machines, text for people.
///
/// A line is handed on at once, so lines of several threads do not mix.
struct LineLogHandler: LogHandler {
    private let label: String
    private let format: CommonSettings.LogFormat
    private let write: @Sendable (String) -> Void
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel: Logger.Level

    /// - Parameter write: takes each line with its end.
    init(
        label: String, format: CommonSettings.LogFormat, level: Logger.Level,
        write: @escaping @Sendable (String) -> Void
    ) {
        self.write = write
        self.label = label
        self.format = format
        self.logLevel = level
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var metadata = self.metadata
        if let provided = self.metadataProvider?.get() { metadata.merge(provided) { _, new in new } }
        if let given = event.metadata { metadata.merge(given) { _, new in new } }
        let fields = metadata.sorted { $0.key < $1.key }.map { ($0.key, "\($0.value)") }
        let line = self.line(
            time: Self.time(Date()), level: event.level, message: "\(event.message)", fields: fields)
        self.write(line)
    }

    /// Returns the line in the place of lines that were dropped.
    static func notice(of count: Int, label: String, format: CommonSettings.LogFormat) -> String {
        Self(label: label, format: format, level: .warning) { _ in }.line(
            time: Self.time(Date()), level: .warning, message: "lines are missing here: the log was not read in time",
            fields: [("lines", "\(count)")])
    }

    /// Returns a moment with its zone: `2026-01-02T03:04:05.678Z`. Source: RFC 3339
    static func time(_ moment: Date) -> String {
        moment.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    /// Returns one line with its line end; the content of values cannot forge another line.
    func line(time: String, level: Logger.Level, message: String, fields: [(String, String)]) -> String {
        switch self.format {
        case .text:
            let tail = fields.map { " \($0.0)=\(Self.visible($0.1))" }.joined()
            return "\(time) \(level.rawValue.uppercased()) \(Self.visible(message))\(tail)\n"
        case .json:
            let head = [("time", time), ("level", level.rawValue), ("service", self.label), ("message", message)]
            let members = (head + fields).map { "\(Self.quoted($0.0)):\(Self.quoted($0.1))" }
            return "{\(members.joined(separator: ","))}\n"
        }
    }

    /// Returns the text without characters that end a line, control a terminal, or reverse the direction of writing.
    private static func visible(_ text: String) -> String {
        var visible = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            visible.append(scalar.isHidden ? " " : scalar)
        }
        return String(visible)
    }

    /// Returns the text as JSON, with escapes for what `visible` replaces: readers of JSON get all of it.
    ///
    /// Source: RFC 8259 §7
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case _ where scalar.isHidden:
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
