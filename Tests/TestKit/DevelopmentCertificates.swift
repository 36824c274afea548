import Foundation

/// Certificates and keys as Apple would issue them for an order type, made by the `openssl` program under a root of
/// our own.
///
/// They have what Wallet checks: a chain of three, the marker in the intermediate, order type and key usage in the
/// leaf.
/// Source: Wallet Orders §2.5, §7
public struct DevelopmentCertificates: Sendable {
    /// The subject and the validity of the certificates.
    public struct Options: Sendable {
        /// Reverse DNS, such as `order.com.example.shop`.
        public var orderType: String
        /// Ten upper-case letters and digits.
        public var team: String
        /// The start of validity of the order type's certificate; nil means one minute ago. Root, intermediate and
        /// server certificate are always valid at the present time.
        public var notBeforeEpochSeconds: Int64?
        /// The end of validity of the order type's certificate; nil means a year from now.
        public var notAfterEpochSeconds: Int64?
        /// A directory with the root and intermediate of an earlier call, which issue the new certificate; nil makes
        /// new ones.
        public var authority: String?
        /// DNS names of the server's certificate, beside `localhost`: letters, digits, `-` and `.`.
        public var serverNames: [String] = []
        /// The parts that the order type's certificate lacks, to test its refusal.
        public var omitted: Set<Part> = []

        /// A part that states the purpose of the certificate. Source: Wallet Orders §7
        public enum Part: Hashable, Sendable { case userIdentifier, orderTypeExtension, keyUsage }

        public init(
            orderType: String, team: String = "TEAM123456", notBeforeEpochSeconds: Int64? = nil,
            notAfterEpochSeconds: Int64? = nil, authority: String? = nil
        ) {
            self.orderType = orderType
            self.team = team
            self.notBeforeEpochSeconds = notBeforeEpochSeconds
            self.notAfterEpochSeconds = notAfterEpochSeconds
            self.authority = authority
        }
    }

    /// The directory of the files.
    public let directory: String

    /// Refers to the files of an earlier `make`.
    public init(directory: String) { self.directory = directory }

    /// The root for all verification: `root.pem`.
    public var root: String { self.directory + "/root.pem" }
    /// The equivalent of Apple's WWDR intermediate: `intermediate.pem`.
    public var intermediate: String { self.directory + "/intermediate.pem" }
    /// The order type's certificate, signer of packages and client certificate for APNs: `certificate.pem`.
    public var certificate: String { self.directory + "/certificate.pem" }
    /// The private key of `certificate`: `key.pem`.
    public var key: String { self.directory + "/key.pem" }
    /// A P-256 key for provider tokens, PKCS #8: `provider-key.p8`.
    public var providerKey: String { self.directory + "/provider-key.p8" }
    /// The TLS certificate for `localhost`, 127.0.0.1 and ::1, followed by the root: `server-certificate.pem`.
    public var serverCertificate: String { self.directory + "/server-certificate.pem" }
    /// The private key of `serverCertificate`: `server-key.pem`.
    public var serverKey: String { self.directory + "/server-key.pem" }

    /// Makes all files in a directory, which is created if it is missing.
    /// - Throws: `DevelopmentCertificatesError` if an option is wrong, `ProgramError` if `openssl` fails.
    public static func make(in directory: String, orderType: String, team: String = "TEAM123456") throws -> Self {
        try Self.make(in: directory, Options(orderType: orderType, team: team))
    }

    /// Makes all files in a directory, which is created if it is missing.
    /// - Throws: `DevelopmentCertificatesError` if an option is wrong, `ProgramError` if `openssl` fails.
    public static func make(in directory: String, _ options: Options) throws -> Self {
        try options.check()
        let files = FileManager.default
        try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let work = directory + "/.work-\(UUID().uuidString)"
        try files.createDirectory(
            atPath: work, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        defer { try? files.removeItem(atPath: work) }

        let certificates = Self(directory: directory)
        try certificates.makeAuthority(options, work: work)
        try certificates.makeOrderTypeCertificate(options, work: work)
        try certificates.makeServerCertificate(options.serverNames, work: work)
        try OpenSSLProgram.run([
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", certificates.providerKey,
        ])
        for key in ["root-key.pem", "intermediate-key.pem", "key.pem", "provider-key.p8", "server-key.pem"] {
            try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: directory + "/" + key)
        }
        return certificates
    }

    /// Copies the files that this process makes once into a directory, which is created if it is missing. For tests
    /// that need no certificates of their own: making RSA keys takes processor time.
    ///
    /// - Parameter orderType: an order type other than the common one gets its own certificate from the same authority.
    public static func copy(to directory: String, orderType: String = commonOrderType) throws -> Self {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for (name, content) in try Self.common.get() {
            try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
        }
        guard orderType != Self.commonOrderType else { return Self(directory: directory) }
        return try Self.make(in: directory, Options(orderType: orderType, authority: directory))
    }

    public static let commonOrderType = "order.com.example.shop"

    private static let common = Result {
        let directory = try TemporaryDirectory("certificates")
        _ = try Self.make(in: directory.path, orderType: Self.commonOrderType)
        return try FileManager.default.contentsOfDirectory(atPath: directory.path).map { name in
            (name, try Data(contentsOf: URL(fileURLWithPath: directory.path(name))))
        }
    }
}

/// The reason why options for development certificates were refused.
public struct DevelopmentCertificatesError: Error, CustomStringConvertible {
    public let description: String
}

extension DevelopmentCertificates.Options {
    /// True for the ASCII characters of order types and host names.
    private static func isOfName(_ byte: UInt8) -> Bool {
        byte < 0x80 && (Character(UnicodeScalar(byte)).isLetter || Character(UnicodeScalar(byte)).isNumber)
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
    }

    fileprivate func check() throws {
        let labels = self.orderType.split(separator: ".", omittingEmptySubsequences: false)
        let plain = self.orderType.utf8.allSatisfy(Self.isOfName)
        guard labels.count >= 2, labels.allSatisfy({ !$0.isEmpty }), plain, self.orderType.utf8.count <= 64 else {
            throw DevelopmentCertificatesError(
                description: "making certificates for order type \"\(self.orderType)\": it must look like "
                    + "order.com.example.shop and fit into 64 characters")
        }
        let alphanumeric = self.team.utf8.allSatisfy {
            (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        for name in self.serverNames where name.isEmpty || !name.utf8.allSatisfy(Self.isOfName) {
            throw DevelopmentCertificatesError(
                description: "making certificates for the server \"\(name)\": a name is letters, digits, - and .")
        }
        guard self.team.utf8.count == 10, alphanumeric else {
            throw DevelopmentCertificatesError(
                description: "making certificates for team \"\(self.team)\": a team is ten of A-Z and 0-9")
        }
    }
}

extension DevelopmentCertificates {
    /// Makes root and intermediate, or copies them from an earlier directory.
    private func makeAuthority(_ options: Options, work: String) throws {
        if let authority = options.authority {
            for name in ["root.pem", "root-key.pem", "intermediate.pem", "intermediate-key.pem"] {
                guard authority != self.directory else { return }
                let copy = self.directory + "/" + name
                if FileManager.default.fileExists(atPath: copy) { try FileManager.default.removeItem(atPath: copy) }
                try FileManager.default.copyItem(atPath: authority + "/" + name, toPath: copy)
            }
            return
        }
        let extensions = """
            [root]
            basicConstraints = critical, CA:true
            keyUsage = critical, keyCertSign, cRLSign
            subjectKeyIdentifier = hash
            [intermediate]
            basicConstraints = critical, CA:true, pathlen:0
            keyUsage = critical, keyCertSign, cRLSign
            subjectKeyIdentifier = hash
            authorityKeyIdentifier = keyid:always
            1.2.840.113635.100.6.2.1 = ASN1:NULL

            """
        try self.issue(
            "root", subject: "/C=US/O=Waybill/CN=Waybill development root", key: ["rsa:2048"], issuer: nil,
            extensions: extensions, work: work)
        try self.issue(
            "intermediate", subject: "/C=US/O=Waybill/OU=G4/CN=Waybill development relations", key: ["rsa:2048"],
            issuer: "root", extensions: extensions, work: work)
    }

    private func makeServerCertificate(_ names: [String], work: String) throws {
        let extensions = """
            [server]
            basicConstraints = critical, CA:false
            keyUsage = critical, digitalSignature
            extendedKeyUsage = serverAuth
            subjectAltName = \((["localhost"] + names).map { "DNS:\($0)" }.joined(separator: ", ")), IP:127.0.0.1, IP:::1
            subjectKeyIdentifier = hash
            authorityKeyIdentifier = keyid:always

            """
        try self.issue(
            "server", subject: "/O=Waybill/CN=localhost", key: ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            issuer: "root", extensions: extensions, work: work)
        let certificate = try String(contentsOfFile: self.directory + "/server.pem", encoding: .utf8)
        let root = try String(contentsOfFile: self.root, encoding: .utf8)
        try (certificate + root).write(toFile: self.serverCertificate, atomically: true, encoding: .utf8)
        try FileManager.default.removeItem(atPath: self.directory + "/server.pem")
    }

    /// Makes `<name>-key.pem` and `<name>.pem`, valid for ten years from now.
    private func issue(
        _ name: String, subject: String, key: [String], issuer: String?, extensions: String, work: String
    ) throws {
        let configuration = "\(work)/\(name).cnf"
        try ("[req]\ndistinguished_name = none\n[none]\n" + extensions).write(
            toFile: configuration, atomically: false, encoding: .utf8)
        let request =
            ["req", "-new", "-config", configuration, "-utf8", "-subj", subject, "-sha256", "-newkey"] + key
            + ["-nodes", "-keyout", "\(self.directory)/\(name)-key.pem"]
        guard let issuer else {
            try OpenSSLProgram.run(
                request + ["-x509", "-days", "3650", "-extensions", name, "-out", "\(self.directory)/\(name).pem"])
            return
        }
        try OpenSSLProgram.run(request + ["-out", "\(work)/\(name).csr"])
        try OpenSSLProgram.run([
            "x509", "-req", "-in", "\(work)/\(name).csr", "-days", "3650", "-sha256",
            "-CA", "\(self.directory)/\(issuer).pem", "-CAkey", "\(self.directory)/\(issuer)-key.pem",
            "-extfile", configuration, "-extensions", name, "-out", "\(self.directory)/\(name).pem",
        ])
    }

    /// Issues the leaf with `openssl ca`, the only command of version 3.0 that takes both dates.
    private func makeOrderTypeCertificate(_ options: Options, work: String) throws {
        let marker =
            options.omitted.contains(.orderTypeExtension)
            ? "" : "1.2.840.113635.100.14.2 = ASN1:UTF8String:\(options.orderType)"
        let userIdentifier = options.omitted.contains(.userIdentifier) ? "" : "/UID=\(options.orderType)"
        let configuration = """
            [req]
            distinguished_name = none
            [none]
            [ca]
            default_ca = development
            [development]
            database = \(work)/index.txt
            new_certs_dir = \(work)
            rand_serial = yes
            unique_subject = no
            default_md = sha256
            policy = anything
            [anything]
            UID = optional
            commonName = supplied
            organizationalUnitName = supplied
            organizationName = optional
            countryName = optional
            [leaf]
            basicConstraints = critical, CA:false
            keyUsage = critical, digitalSignature
            extendedKeyUsage = clientAuth\(options.omitted.contains(.keyUsage) ? "" : ", 1.2.840.113635.100.4.19")
            subjectKeyIdentifier = hash
            authorityKeyIdentifier = keyid:always
            \(marker)

            """
        try configuration.write(toFile: work + "/leaf.cnf", atomically: false, encoding: .utf8)
        try "".write(toFile: work + "/index.txt", atomically: false, encoding: .utf8)
        // A common name holds at most 64 characters, prefix included.
        let commonName = String("Order Type ID: \(options.orderType)".prefix(64))
        try OpenSSLProgram.run([
            "req", "-new", "-config", work + "/leaf.cnf", "-newkey", "rsa:2048", "-nodes", "-sha256", "-utf8",
            "-subj", "\(userIdentifier)/CN=\(commonName)/OU=\(options.team)/O=Waybill/C=US",
            "-keyout", self.key, "-out", work + "/leaf.csr",
        ])
        let now = Int64(Date().timeIntervalSince1970)
        try OpenSSLProgram.run([
            "ca", "-batch", "-notext", "-preserveDN", "-config", work + "/leaf.cnf", "-extensions", "leaf",
            "-in", work + "/leaf.csr", "-out", self.certificate,
            "-cert", self.intermediate, "-keyfile", self.directory + "/intermediate-key.pem",
            "-startdate", Self.asn1Time(options.notBeforeEpochSeconds ?? now - 60),
            "-enddate", Self.asn1Time(options.notAfterEpochSeconds ?? now + 365 * 86_400),
        ])
    }

    /// Returns a time as `YYYYMMDDHHMMSSZ`, the format of `openssl ca -startdate`.
    private static func asn1Time(_ epochSeconds: Int64) -> String {
        let date = Date(timeIntervalSince1970: TimeInterval(epochSeconds))
        return date.formatted(.iso8601).filter(\.isNumber) + "Z"
    }
}
