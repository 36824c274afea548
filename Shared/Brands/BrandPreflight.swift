import Glibc
public import Operations

/// The part of the check before a start about brands.
extension BrandLibrary {
    /// Returns the check: brands that cannot be loaded, and certificates that end within 30 days.
    ///
    /// - Parameter directory: the directory of brands.
    public func preflight(_ directory: String) -> PreflightCheck {
        PreflightCheck(.brands, usesNetwork: false) { self.findings(directory, nowEpochSeconds: Int64(time(nil))) }
    }

    func findings(_ directory: String, nowEpochSeconds now: Int64) -> [PreflightFinding] {
        var findings = self.failures.map { failure in
            PreflightFinding(
                .brands, "\(failure.folder): \(failure.error)",
                fix: "correct the file in \(directory)/\(failure.folder)")
        }
        if findings.isEmpty, self.brands.orderTypes.isEmpty {
            findings.append(
                PreflightFinding(
                    .brands, "\(directory): there is no brand, or the directory cannot be read",
                    fix: "create a directory with a brand.json in it, or correct WAYBILL_BRANDS"))
        }
        for certificate in self.brands.certificates where certificate.days(fromEpochSeconds: now) < ExpiryWarnings.days
        {
            let days = Int(certificate.days(fromEpochSeconds: now).rounded(.down))
            findings.append(
                PreflightFinding(
                    .brands, .warning,
                    "\(certificate.orderType): the \(certificate.use.rawValue) certificate expires in \(days) days",
                    fix: "put a renewed certificate into the brand's directory"))
        }
        return findings
    }
}
