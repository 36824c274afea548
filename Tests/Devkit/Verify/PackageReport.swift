import Model

/// The findings about a package.
struct PackageReport: Sendable {
    /// Violations for which Wallet would refuse the package; empty if it is valid.
    var violations: [PackageViolation] = []
    /// Where the order does not keep Apple's guidelines; Wallet takes it all the same.
    var guidelines: [OrderGuideline.Finding] = []
    /// A file of the package, with the digest of its content in hexadecimal digits.
    struct File: Hashable, Sendable {
        let name: String
        let size: Int
        let sha256: String
    }

    /// The files in the order of the archive.
    var files: [File] = []
    /// The order document, as far as it could be read.
    var order: JSON?
    var signingEpochSeconds: Int64?

    /// `updatedAt` of the order as epoch seconds.
    var updatedAtEpochSeconds: Int64? {
        self.order?.object?["updatedAt"]?.string.flatMap { RFC3339.parse($0) }
    }

    /// One line for people.
    var summary: String {
        let members = self.order?.object
        let size = self.files.reduce(0) { $0 + $1.size }
        let identifier = members?["orderIdentifier"]?.string ?? "?"
        let updated = members?["updatedAt"]?.string ?? "?"
        let signed = self.signingEpochSeconds.map { RFC3339.format(epochSeconds: $0) } ?? "?"
        return "order \(identifier), updated \(updated), signed \(signed), \(self.files.count) files, \(size) bytes"
    }

    /// Returns the report for programs, as one object. `file` is the name given to the package.
    func json(file: String) -> JSON {
        var object: JSONObject = [
            "file": .string(file), "valid": .bool(self.violations.isEmpty),
            "violations": .array(
                self.violations.map { violation in
                    [
                        "code": .string(violation.code.rawValue), "place": .string(violation.place),
                        "message": .string(violation.message),
                    ]
                }),
            "guidelines": .array(
                self.guidelines.map { finding in
                    [
                        "code": .string(finding.guideline.code), "place": .string(finding.path),
                        "message": .string(finding.guideline.advice),
                    ]
                }),
            "files": .array(self.files.map(\.json)),
        ]
        let members = self.order?.object
        for name in ["orderTypeIdentifier", "orderIdentifier", "updatedAt"] { object[name] = members?[name] }
        object["signedAt"] = self.signingEpochSeconds.map { .string(RFC3339.format(epochSeconds: $0)) }
        return .object(object)
    }
}

extension PackageReport.File {
    var json: JSON {
        ["name": .string(self.name), "size": .integer(Int64(self.size)), "sha256": .string(self.sha256)]
    }
}
