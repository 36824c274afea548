/// A certificate for `localhost` and 127.0.0.1 that is its own root, for servers that a test starts.
public struct ServerCertificate: Sendable {
    /// PEM file; a client that trusts it trusts the server.
    public let file: String
    /// PEM file with its key.
    public let key: String
    private let directory: TemporaryDirectory

    /// Makes a certificate with the `openssl` program.
    ///
    /// - Parameter names: the names for which it is valid, in openssl's syntax for alternative names.
    public init(names: String = "DNS:localhost,IP:127.0.0.1") async throws {
        self.directory = try TemporaryDirectory("certificate")
        self.file = self.directory.path("certificate.pem")
        self.key = self.directory.path("key.pem")
        try await ChildProcess.run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=\(names)", "-keyout", self.key,
                "-out", self.file,
            ])
    }

    /// Returns the arguments with which a `redis-server` speaks TLS on a port, to clients and to other servers.
    public func redisArguments(port: Int) -> [String] {
        [
            "--tls-port", "\(port)", "--tls-cert-file", self.file, "--tls-key-file", self.key, "--tls-ca-cert-file",
            self.file, "--tls-auth-clients", "no",
        ]
    }
}
