/// Decides when to warn that a certificate expires soon: below 30 days, once a day for each.
///
/// Source: Wallet Orders §7
struct ExpiryWarnings {
    /// The number of days before the expiry at which warnings begin.
    static let days = 30.0
    static let intervalSeconds: Int64 = 86_400

    /// The time of the last warning for each. Certificates that were removed or renewed are forgotten.
    private var logged: [BrandCertificate: Int64] = [:]

    /// Returns the certificates to warn of at this time.
    mutating func due(_ certificates: [BrandCertificate], nowEpochSeconds now: Int64) -> [BrandCertificate] {
        self.logged = self.logged.filter { certificates.contains($0.key) }
        let due = certificates.filter { certificate in
            guard certificate.days(fromEpochSeconds: now) < Self.days else { return false }
            return self.logged[certificate].map { now - $0 >= Self.intervalSeconds || now < $0 } ?? true
        }
        for certificate in due { self.logged[certificate] = now }
        return due
    }
}
