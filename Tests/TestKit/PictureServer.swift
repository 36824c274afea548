import Foundation
import Synchronization

/// An HTTPS server for pictures with configurable answers, valid or not, that records the requests.
///
/// It uses Python's `ssl` on a raw socket, so that our own HTTP parser is not tested against itself.
public final class PictureServer: Sendable {
    /// The answer for a path.
    public struct Answer: Sendable {
        public var status = 200
        public var headers: [String: String] = [:]
        public var body: [UInt8] = []
        /// True if `Content-Length` is sent; otherwise the end of the connection ends the body.
        public var tellsLength = true
        /// The wait before the status line, in seconds.
        public var delay = 0.0
        /// True if the connection stays for another request.
        public var keepsAlive = false
        /// The pause between pieces of 100 bytes of the body, in seconds.
        public var drip = 0.0

        public init(_ body: [UInt8] = [], headers: [String: String] = [:]) {
            self.body = body
            self.headers = headers
        }

        public static func status(_ status: Int, _ headers: [String: String] = [:]) -> Answer {
            var answer = Answer(headers: headers)
            answer.status = status
            return answer
        }
    }

    /// One received request.
    public struct Request: Hashable, Sendable {
        public let host: String
        public let path: String
        /// `If-None-Match`, or empty.
        public let condition: String
        /// The header values by lower-case name; of a repeated header the last value.
        public let headers: [String: String]
        /// The address of the server that the client connected to.
        public let address: String
    }

    /// Its port on 127.0.0.1, and on its further addresses.
    public let port: Int
    /// The root of its certificate: the certificate itself.
    public let rootPEM: [UInt8]

    private let child: ChildProcess
    private let directory: TemporaryDirectory
    private let answers = Mutex<[String: Wire]>([:])

    private init(port: Int, rootPEM: [UInt8], child: ChildProcess, directory: TemporaryDirectory) {
        self.port = port
        self.rootPEM = rootPEM
        self.child = child
        self.directory = directory
    }

    /// - Parameters:
    ///   - hosts: the names that its certificate is for.
    ///   - addresses: further loopback addresses.
    public static func start(
        hosts: [String] = ["cdn.example.com", "*.images.example.com"], addresses: [String] = []
    ) async throws -> PictureServer {
        let directory = try TemporaryDirectory("pictures")
        try OpenSSLProgram.run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=pictures", "-addext", "subjectAltName=" + hosts.map { "DNS:\($0)" }.joined(separator: ","),
            "-keyout", directory.path("key.pem"), "-out", directory.path("certificate.pem"),
        ])
        try directory.write("answers.json", "{}")
        let script = try directory.write("server.py", Self.script)
        let child = try ChildProcess("python3", ["-u", script, directory.path] + addresses)
        let line = try await child.line(containing: "listening ")
        guard let port = Int(line.split(separator: " ").last ?? "") else {
            throw ChildProcess.Failure(description: "no port in: \(line)")
        }
        return PictureServer(
            port: port, rootPEM: try directory.read("certificate.pem"), child: child, directory: directory)
    }

    /// Sets the answer for a path; until then the answer is 404.
    public func answer(_ path: String, _ answer: Answer) throws {
        let file = URL(filePath: self.directory.path("answers.json"))
        try self.answers.withLock { answers in
            answers[path] = Wire(answer)
            // Atomic, because the server reads the file for each request.
            try JSONEncoder().encode(answers).write(to: file, options: .atomic)
        }
    }

    /// An answer in the server's format, with the body in base64.
    private struct Wire: Encodable {
        let status: Int
        let headers: [String: String]
        let body: Data
        let tellsLength: Bool
        let keepsAlive: Bool
        let delay: Double
        let drip: Double

        init(_ answer: Answer) {
            self.status = answer.status
            self.headers = answer.headers
            self.body = Data(answer.body)
            self.tellsLength = answer.tellsLength
            self.keepsAlive = answer.keepsAlive
            self.delay = answer.delay
            self.drip = answer.drip
        }
    }

    /// The requests so far, in order.
    public var requests: [Request] {
        // A file and not the child's output, because the server records a request in it before it sends the answer.
        let lines = (try? self.directory.read("requests")) ?? []
        return String(decoding: lines, as: UTF8.self).split(separator: "\n").compactMap { line in
            guard let data = line.data(using: .utf8),
                let object = try? JSONSerialization.jsonObject(with: data) as? [String: Any],
                let headers = object["headers"] as? [String: String], let path = object["path"] as? String
            else { return nil }
            return Request(
                host: headers["host"] ?? "", path: path, condition: headers["if-none-match"] ?? "", headers: headers,
                address: object["address"] as? String ?? "")
        }
    }

    public func stop() async { await self.child.stop() }

    private static let script = #"""
        import base64, json, socket, ssl, sys, threading, time

        folder = sys.argv[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/certificate.pem", folder + "/key.pem")
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        noting = threading.Lock()
        requests = open(folder + "/requests", "w")

        def note(request):
            with noting:
                requests.write(json.dumps(request) + "\n")
                requests.flush()

        def answer(connection, path, headers):
            with open(folder + "/answers.json") as file:
                answer = json.load(file).get(path) or {"status": 404, "headers": {}, "body": "", "tellsLength": True}
            time.sleep(answer.get("delay", 0))
            status, fields, body = answer["status"], dict(answer["headers"]), base64.b64decode(answer["body"])
            if status == 200 and fields.get("ETag") and headers.get("if-none-match") == fields["ETag"]:
                status, body = 304, b""
            if answer["tellsLength"] and status != 304:
                fields.setdefault("Content-Length", str(len(body)))
            head = "HTTP/1.1 %d Whatever\r\n" % status + "".join("%s: %s\r\n" % pair for pair in fields.items())
            keeps = answer.get("keepsAlive", False)
            connection.sendall((head + ("" if keeps else "Connection: close\r\n") + "\r\n").encode())
            if answer.get("drip"):
                for start in range(0, len(body), 100):
                    connection.sendall(body[start:start + 100])
                    time.sleep(answer["drip"])
            else:
                connection.sendall(body)
            return keeps

        def serve(raw):
            try:
                raw.settimeout(30)
                with context.wrap_socket(raw, server_side=True) as connection:
                    keeps = True
                    while keeps:
                        received = b""
                        while b"\r\n\r\n" not in received:
                            piece = connection.recv(4096)
                            if not piece:
                                return
                            received += piece
                        lines = received.decode("latin-1").split("\r\n")
                        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
                        headers = {name.lower(): value for name, value in headers.items()}
                        path = lines[0].split(" ")[1]
                        note({"path": path, "headers": headers, "address": connection.getsockname()[0]})
                        keeps = answer(connection, path, headers)
            except (OSError, ValueError):
                pass

        def accept(listener):
            while True:
                accepted, _ = listener.accept()
                threading.Thread(target=serve, args=(accepted,), daemon=True).start()

        port = listener.getsockname()[1]
        for address in sys.argv[2:]:
            other = socket.create_server((address, port), backlog=64)
            threading.Thread(target=accept, args=(other,), daemon=True).start()
        print("listening %d" % port, flush=True)
        accept(listener)
        """#
}
