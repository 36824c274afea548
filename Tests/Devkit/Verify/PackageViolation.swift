/// A part of a package that Wallet refuses or misreads.
struct PackageViolation: Error, Hashable, Sendable, CustomStringConvertible {
    let code: ViolationCode
    /// The location: an entry, or a file with the JSON path or the line in it.
    let place: String
    /// The violation and the correction, one sentence or two.
    let message: String

    init(_ code: ViolationCode, _ place: String, _ message: String) {
        self.code = code
        self.place = place
        self.message = message
    }

    var description: String { "\(self.code.rawValue): \(self.place): \(self.message)" }
}

extension [PackageViolation] {
    /// Adds a violation.
    mutating func note(_ code: ViolationCode, _ place: String, _ message: String) {
        self.append(PackageViolation(code, place, message))
    }
}

/// Returns an external value for a message: in quotes, shortened, without control characters.
func quoted(_ text: String) -> String {
    let clean = String(
        String.UnicodeScalarView(
            text.unicodeScalars.prefix(80).map { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) ? "?" : $0 }))
    return "\"\(clean)\(text.unicodeScalars.count > 80 ? "…" : "")\""
}
