public import Model

/// A fault that the check before a start has found, or a risk.
public struct PreflightFinding: Hashable, Sendable {
    public enum Severity: String, Sendable {
        /// The service does not start, or does not do all of its work.
        case fault
        /// It works, and something should be changed.
        case warning
    }

    let area: PreflightArea
    let severity: Severity
    /// The fault with its place, and the value that was found; no secrets.
    let text: String
    /// The remedy for a person.
    let fix: String

    public init(_ area: PreflightArea, _ text: String, fix: String) { self.init(area, .fault, text, fix: fix) }

    public init(_ area: PreflightArea, _ severity: Severity, _ text: String, fix: String) {
        self.area = area
        self.severity = severity
        self.text = text
        self.fix = fix
    }
}

extension PreflightFinding: Comparable {
    /// By what they say.
    public static func < (left: Self, right: Self) -> Bool { left.text < right.text }
}

/// The areas of the check.
public enum PreflightArea: String, CaseIterable, Sendable {
    case configuration, brands, merchants, sources, secrets, libraries, kafka, redis, clocks, apns, pictures, upstreams

    /// True if a fault of it is corrected in files of ours.
    var isConfiguration: Bool { [.configuration, .brands, .merchants, .sources].contains(self) }
}

/// The result of the check before a start.
public struct PreflightReport: Sendable {
    public internal(set) var findings: [PreflightFinding] = []
    /// The areas that were looked at, in this order.
    public internal(set) var checked: [PreflightArea] = []
    /// Those that were not, with the reason.
    public internal(set) var unchecked: [(area: PreflightArea, reason: String)] = []

    init() {}

    var faults: [PreflightFinding] { self.findings.filter { $0.severity == .fault } }

    /// 0: no fault; 78: a fault of the configuration, a brand, a merchant or a source; 1: faults of the environment
    /// only.
    ///
    /// Source: sysexits.h, EX_CONFIG
    public var exitCode: Int32 {
        if self.faults.contains(where: \.area.isConfiguration) { return 78 }
        return self.faults.isEmpty ? 0 : 1
    }

    /// The report for a person: two lines for each finding, one for each area without.
    public var text: String {
        var lines: [String] = []
        for area in self.checked {
            let found = self.findings.filter { $0.area == area }
            if found.isEmpty { lines.append("ok       \(area.rawValue)") }
            for finding in found {
                let severity = finding.severity == .fault ? "FAULT  " : "warning"
                lines.append("\(severity)  \(area.rawValue): \(finding.text)")
                lines.append("         fix: \(finding.fix)")
            }
        }
        for (area, reason) in self.unchecked { lines.append("skipped  \(area.rawValue): \(reason)") }
        let warnings = self.findings.count - self.faults.count
        lines.append("\(self.faults.count.counted("fault")), \(warnings.counted("warning"))")
        return lines.map { "\($0)\n" }.joined()
    }

    /// The same for programs: `faults`, `warnings` with `area`, `text`, `fix`; `checked`; `skipped` with `area`
    /// and `reason`.
    public var json: JSON {
        func list(_ severity: PreflightFinding.Severity) -> JSON {
            .array(
                self.findings.filter { $0.severity == severity }.map { finding in
                    [
                        "area": .string(finding.area.rawValue), "text": .string(finding.text),
                        "fix": .string(finding.fix),
                    ]
                })
        }
        return [
            "faults": list(.fault), "warnings": list(.warning),
            "checked": .array(self.checked.map { .string($0.rawValue) }),
            "skipped": .array(
                self.unchecked.map { ["area": .string($0.area.rawValue), "reason": .string($0.reason)] }),
        ]
    }
}
