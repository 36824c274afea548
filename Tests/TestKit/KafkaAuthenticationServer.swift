/// A server that speaks the beginning of the Kafka protocol over TLS: supported versions, SASL mechanism,
/// authentication. librdkafka's own broker supports neither TLS nor SASL.
///
/// It prints its observations, one line each: `admitted MECHANISM USER`, `refused MECHANISM USER`, and `asked NUMBER`
/// for any later request, which shows that the client accepts the server as well and gets no answer.
/// Source: Kafka protocol guide, "SASL authentication sequence"; RFC 4616; RFC 5802 §3
public final class KafkaAuthenticationServer: Sendable {
    /// The name of the only user.
    public static let user = "waybill"
    /// That user's password.
    public static let password = "a password = with #"

    /// `localhost:<port>`.
    public let bootstrap: String
    /// The server's certificate.
    public let certificate: ServerCertificate
    private let child: ChildProcess

    private init(bootstrap: String, certificate: ServerCertificate, child: ChildProcess) {
        self.bootstrap = bootstrap
        self.certificate = certificate
        self.child = child
    }

    /// Starts the server and returns when it listens.
    public static func start() async throws -> KafkaAuthenticationServer {
        let certificate = try await ServerCertificate()
        let child = try ChildProcess(
            "python3", ["-u", "-c", Self.program, certificate.file, certificate.key, Self.user, Self.password])
        let line = try await child.line(containing: "listening")
        return KafkaAuthenticationServer(
            bootstrap: "localhost:\(line.split(separator: " ").last ?? "")", certificate: certificate, child: child)
    }

    /// Returns the lines of a properties file for this server.
    public func properties(mechanism: String, password: String = KafkaAuthenticationServer.password) -> String {
        """
        security.protocol=sasl_ssl
        ssl.ca.location=\(self.certificate.file)
        sasl.mechanism=\(mechanism)
        sasl.username=\(Self.user)
        sasl.password=\(password)

        """
    }

    /// Waits until the server has printed a text.
    public func until(_ text: String) async throws { try await self.child.line(containing: text) }

    /// Ends the server.
    public func stop() async { await self.child.stop() }

    private static let program = KafkaServerProgram.with(
        #"""
        import base64, hashlib, hmac, os, ssl

        certificate, key, user, password = sys.argv[1:]
        VERSIONS = [(3, 0, 4), (17, 0, 1), (18, 0, 3), (36, 0, 0)]

        class Scram:
            def __init__(self, digest):
                self.digest, self.bare, self.server = digest, None, None

            def sign(self, secret, data):
                return hmac.new(secret, data, self.digest).digest()

            # Returns what to answer and whether the client is who it says; None: not yet.
            def step(self, data):
                if self.bare is None:
                    self.bare = data.split(b",", 2)[2]
                    nonce = data.split(b",r=", 1)[1] + base64.b64encode(os.urandom(12))
                    self.salt = os.urandom(16)
                    self.server = b"r=" + nonce + b",s=" + base64.b64encode(self.salt) + b",i=4096"
                    return self.server, None
                final, proof = data.rsplit(b",p=", 1)
                salted = hashlib.pbkdf2_hmac(self.digest, password.encode(), self.salt, 4096)
                stored = hashlib.new(self.digest, self.sign(salted, b"Client Key")).digest()
                said = b",".join([self.bare, self.server, final])
                mask = self.sign(stored, said)
                client = bytes(a ^ b for a, b in zip(base64.b64decode(proof), mask))
                right = hashlib.new(self.digest, client).digest() == stored
                right = right and self.bare.startswith(b"n=" + user.encode() + b",")
                return b"v=" + base64.b64encode(self.sign(self.sign(salted, b"Server Key"), said)), right

        class Plain:
            def step(self, data):
                return b"", data.split(b"\0")[1:] == [user.encode(), password.encode()]

        MECHANISMS = {
            "PLAIN": Plain, "SCRAM-SHA-256": lambda: Scram("sha256"), "SCRAM-SHA-512": lambda: Scram("sha512")}

        def serve(connection):
            mechanism = check = None
            for api, version, number, rest in requests(connection):
                if api == 18:
                    answer = versions(version)
                elif api == 17:
                    mechanism = rest[2:].decode()
                    check = MECHANISMS[mechanism]()
                    answer = struct.pack(">hi", 0, 1) + text(mechanism)
                elif api == 36:
                    said, right = check.step(rest[4:])
                    if right is False:
                        print("refused", mechanism, user)
                        answer = struct.pack(">h", 58) + text("no such user or password") + struct.pack(">i", 0)
                    else:
                        if right:
                            print("admitted", mechanism, user)
                        answer = struct.pack(">hhi", 0, -1, len(said)) + said
                else:
                    # No answer: the client waits, and does not come again.
                    print("asked", api)
                    continue
                reply(connection, number, answer)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listen(serve, lambda raw: context.wrap_socket(raw, server_side=True))
        """#)
}
