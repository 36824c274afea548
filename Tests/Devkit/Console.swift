import Foundation

/// The output for a person: results on standard output, progress on standard error.
enum Console {
    /// Prints one line on standard output, unbuffered: transcripts are read while they grow.
    static func line(_ text: String = "") {
        FileHandle.standardOutput.write(Data((text + "\n").utf8))
    }

    /// Prints one line on standard error.
    static func progress(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }

    /// Formats milliseconds, with one decimal below ten: `"3.4 ms"`, `"127 ms"`.
    static func milliseconds(_ duration: Duration) -> String {
        let tenths = duration.microseconds / 100
        return tenths < 100 ? "\(tenths / 10).\(tenths % 10) ms" : "\(tenths / 10) ms"
    }

    /// Formats a rate with one decimal: `"512.3"`, or `"n/a"` without a measurement.
    static func rate(_ count: Int64?, per duration: Duration) -> String {
        guard let count, duration > .zero else { return "n/a" }
        let tenths = count &* 10_000_000 / max(duration.microseconds, 1)
        return "\(tenths / 10).\(tenths % 10)"
    }
}

extension Duration {
    /// Whole microseconds.
    var microseconds: Int64 {
        let (seconds, attoseconds) = self.components
        return seconds &* 1_000_000 &+ attoseconds / 1_000_000_000_000
    }
}
