import Glibc
public import Operations

/// The settings of `TransportPolicy`.
public struct TransportSettings: Sendable {
    /// The files, and the certificate read from them.
    let tls: (files: TLSFiles, certificate: ServerCertificate)?
    let limits: ConnectionLimits
    public let proxies: TrustedProxies
    /// The longest time for which a server that stops takes connections.
    public let drain: Duration

    /// - Throws: `SettingsError` naming key and value.
    public init(_ settings: Settings) throws(SettingsError) {
        self.tls = try Self.tls(settings)
        self.limits = ConnectionLimits(
            total: try settings.integer(
                .connectionLimit, default: ConnectionLimits.defaultTotal, in: 1...1_000_000),
            perAddress: try settings.integer(
                .connectionLimitPerAddress, default: ConnectionLimits.defaultPerAddress, in: 1...1_000_000))
        let proxies = settings.text(.trustedProxies)
        guard let trusted = proxies.map({ TrustedProxies($0) }) ?? TrustedProxies.none else {
            throw SettingsError(
                .trustedProxies, value: proxies, "must be addresses or networks, for example 10.0.0.0/8,fd00::/8")
        }
        self.proxies = trusted
        self.drain = .seconds(try settings.integer(.drainSeconds, default: 10, in: 0...300))
    }

    /// Warns if secrets travel in the clear to an address: neither the gateway nor a named proxy speaks TLS.
    ///
    /// - Parameters:
    ///   - key: names the address.
    ///   - secrets: the secrets, as the subject of a sentence.
    public func warnIfClear(_ listen: ListenAddress, _ key: SettingKey, secrets: String, _ settings: Settings) {
        guard self.tls == nil, self.proxies == .none, !listen.isLoopback else { return }
        settings.warn(
            "\(key.rawValue)=\(listen): \(secrets) are sent unencrypted; set \(SettingKey.tlsCertificate.rawValue), or "
                + "name the proxy that speaks TLS in \(SettingKey.trustedProxies.rawValue)")
    }

    private static func tls(
        _ settings: Settings
    ) throws(SettingsError) -> (files: TLSFiles, certificate: ServerCertificate)? {
        let (certificate, key) = (settings.text(.tlsCertificate), settings.text(.tlsKey))
        guard let certificate, let key else {
            if let certificate {
                let key = SettingKey.tlsKey.rawValue
                throw SettingsError(.tlsCertificate, value: certificate, "must be set together with \(key)")
            }
            if let key {
                let certificate = SettingKey.tlsCertificate.rawValue
                throw SettingsError(.tlsKey, value: key, "must be set together with \(certificate)")
            }
            return nil
        }
        let files = TLSFiles(certificate: certificate, key: key)
        settings.checkSecrecy(of: key)
        do {
            return (files, try files.load(nowEpochSeconds: Int64(time(nil))))
        } catch {
            let isKey = error.part == .key
            throw SettingsError(isKey ? .tlsKey : .tlsCertificate, value: error.path, error.problem)
        }
    }
}
