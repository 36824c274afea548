import Foundation
import Model
import TestKit

@testable import Checkout

/// A stand-in for Apple's merchant session hosts on 127.0.0.1: TLS, with a client certificate of its authority
/// required.
///
/// It records each request and its client, and answers as its mood file says.
final class AppleSessions: Sendable {
    /// A request as received.
    struct Seen: Sendable {
        /// The server name (SNI) in the handshake.
        let serverName: String
        let host: String
        let method: String
        let path: String
        /// The subject's UID in the client certificate.
        let client: String
        let contentType: String
        let body: JSON
    }

    /// The certificates, made once.
    struct Authority: Sendable {
        let directory: TemporaryDirectory
        var roots: String { self.directory.path("root.pem") }
    }

    let port: Int
    let authority: Authority
    private let child: ChildProcess
    private let directory: TemporaryDirectory

    static let made = Result { try AppleSessions.make() }

    private init(port: Int, authority: Authority, child: ChildProcess, directory: TemporaryDirectory) {
        self.port = port
        self.authority = authority
        self.child = child
        self.directory = directory
    }

    static func start() async throws -> AppleSessions {
        let authority = try Self.made.get()
        let directory = try TemporaryDirectory("apple-sessions")
        try directory.write("mood", "session")
        let script = try directory.write("server.py", Self.script)
        let child = try ChildProcess("python3", ["-u", script, directory.path, authority.directory.path])
        let line = try await child.line(containing: "listening ")
        guard let port = Int(line.split(separator: " ").last ?? "") else {
            throw RawConnectionFailure(description: "no port in: \(line)")
        }
        return AppleSessions(port: port, authority: authority, child: child, directory: directory)
    }

    /// The environment of a checkout process that connects to this server.
    var environment: [String: String] {
        let detours = AppleHost.all.keys.sorted().map { "\($0):443:127.0.0.1:\(self.port)" }
        return [
            "WAYBILL_DEVELOPMENT_APPLE_PAY": detours.joined(separator: ","),
            "WAYBILL_DEVELOPMENT_APPLE_PAY_ROOTS": self.authority.roots,
        ]
    }

    /// Sets the mood: `session`, `refuse`, `fail`, `page`, `huge`, `redirect`, `cut` or `silence`.
    func turn(_ mood: String) throws { try self.directory.write("mood", mood) }

    var seen: [Seen] {
        let lines = (try? self.directory.read("requests")) ?? []
        return lines.split(separator: UInt8(ascii: "\n")).compactMap { line in
            guard let object = (try? JSON(parsing: Array(line)))?.object else { return nil }
            func text(_ name: String) -> String { object[name]?.string ?? "" }
            return Seen(
                serverName: text("sni"), host: text("host"), method: text("method"), path: text("path"),
                client: text("client"), contentType: text("type"),
                body: (try? JSON(parsing: Array(text("body").utf8))) ?? .null)
        }
    }

    /// The number of connections, with or without a client certificate.
    var connections: Int { ((try? self.directory.read("connections")) ?? []).count }

    func stop() async { _ = await self.child.stop() }

    /// Returns a client certificate of a merchant. Its UID and the extension are omitted if they are nil.
    static func identity(
        _ merchant: String?, extension text: String? = nil, days: Int = 30, named name: String
    ) throws -> (certificate: [UInt8], key: [UInt8]) {
        let directory = try Self.made.get().directory
        let line = text.map { "1.2.840.113635.100.6.32 = ASN1:UTF8String:\($0)\n" } ?? ""
        try directory.write("\(name).cnf", "[leaf]\nextendedKeyUsage = clientAuth\n\(line)")
        try OpenSSLProgram.run([
            "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", directory.path("\(name)-key.pem"), "-utf8",
            "-subj", "\(merchant.map { "/UID=\($0)" } ?? "")/CN=Apple Pay Merchant Identity",
            "-out", directory.path("\(name).csr"),
        ])
        try OpenSSLProgram.run([
            "x509", "-req", "-in", directory.path("\(name).csr"), "-days", "\(days)", "-CA", directory.path("root.pem"),
            "-CAkey", directory.path("root-key.pem"), "-extfile", directory.path("\(name).cnf"), "-extensions", "leaf",
            "-out", directory.path("\(name).pem"),
        ])
        return (try directory.read("\(name).pem"), try directory.read("\(name)-key.pem"))
    }

    private static func make() throws -> Authority {
        let directory = try TemporaryDirectory("apple-authority")
        try OpenSSLProgram.run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", "/CN=Apple of the tests",
            "-keyout", directory.path("root-key.pem"), "-out", directory.path("root.pem"),
        ])
        let names = AppleHost.all.keys.sorted().map { "DNS:\($0)" }.joined(separator: ",")
        try directory.write("server.cnf", "[leaf]\nsubjectAltName = \(names)\n")
        try OpenSSLProgram.run([
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", directory.path("server-key.pem"),
            "-subj", "/CN=apple", "-out", directory.path("server.csr"),
        ])
        try OpenSSLProgram.run([
            "x509", "-req", "-in", directory.path("server.csr"), "-days", "30", "-CA", directory.path("root.pem"),
            "-CAkey", directory.path("root-key.pem"), "-extfile", directory.path("server.cnf"), "-extensions", "leaf",
            "-out", directory.path("server.pem"),
        ])
        return Authority(directory: directory)
    }

    private static let script = #"""
        import json, socket, ssl, sys, threading

        folder, authority = sys.argv[1], sys.argv[2]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority + "/server.pem", authority + "/server-key.pem")
        context.load_verify_locations(authority + "/root.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        names = {}
        def named(connection, name, context):
            names[connection] = name
        context.sni_callback = named
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        noting = threading.Lock()

        def append(name, text):
            with noting, open(folder + "/" + name, "a") as file:
                file.write(text)

        def answer(connection):
            mood = open(folder + "/mood").read()
            session = json.dumps({"epochTimestamp": 1, "merchantSessionIdentifier": "SSH", "nonce": "n"})
            status, body, extra = 200, session, ""
            if mood == "refuse":
                status, body = 417, json.dumps({"statusMessage": "merchant not registered", "statusCode": "417"})
            elif mood == "fail":
                status, body = 500, "oops"
            elif mood == "page":
                body = "<html>"
            elif mood == "huge":
                body = json.dumps({"x": "y" * 70000})
            elif mood == "redirect":
                status, extra = 302, "Location: https://apple-pay-gateway.apple.com/elsewhere\r\n"
            elif mood == "cut":
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                return False
            head = "HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
            connection.sendall((head % (status, len(body), extra) + body).encode())
            return True

        def serve(raw):
            append("connections", ".")
            try:
                raw.settimeout(30)
                with context.wrap_socket(raw, server_side=True) as connection:
                    subject = connection.getpeercert()["subject"]
                    client = [value for part in subject for name, value in part if name == "userId"]
                    received = b""
                    while True:
                        while b"\r\n\r\n" not in received:
                            piece = connection.recv(4096)
                            if not piece:
                                return
                            received += piece
                        head, received = received.split(b"\r\n\r\n", 1)
                        lines = head.decode("latin-1").split("\r\n")
                        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                        while len(received) < int(fields.get("content-length", "0")):
                            received += connection.recv(4096)
                        length = int(fields.get("content-length", "0"))
                        body, received = received[:length], received[length:]
                        method, path = lines[0].split(" ")[:2]
                        append("requests", json.dumps({
                            "sni": names.get(connection, ""), "host": fields.get("host", ""), "method": method,
                            "path": path, "client": client[0] if client else "", "type": fields.get("content-type", ""),
                            "body": body.decode()}) + "\n")
                        if not answer(connection):
                            return
            except (OSError, ValueError):
                pass

        print("listening %d" % listener.getsockname()[1], flush=True)
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=serve, args=(accepted,), daemon=True).start()
        """#
}
