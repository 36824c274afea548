import Foundation
import Model
import TestKit

/// A shop's or payment provider's service over TLS on 127.0.0.1, which records requests and answers by path.
final class ShopServer: Sendable {
    struct Seen: Sendable {
        let method: String
        let path: String
        let headers: [String: String]
        let body: String
    }

    let port: Int
    let rootPEM: [UInt8]
    private let child: ChildProcess
    private let directory: TemporaryDirectory

    private init(port: Int, rootPEM: [UInt8], child: ChildProcess, directory: TemporaryDirectory) {
        self.port = port
        self.rootPEM = rootPEM
        self.child = child
        self.directory = directory
    }

    static func start() async throws -> ShopServer {
        let directory = try TemporaryDirectory("shop-server")
        try OpenSSLProgram.run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=shop",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", directory.path("key.pem"),
            "-out", directory.path("certificate.pem"),
        ])
        let script = try directory.write("server.py", Self.script)
        let child = try ChildProcess("python3", ["-u", script, directory.path])
        let line = try await child.line(containing: "listening ")
        guard let port = Int(line.split(separator: " ").last ?? "") else {
            throw RawConnectionFailure(description: "no port in: \(line)")
        }
        return ShopServer(
            port: port, rootPEM: try directory.read("certificate.pem"), child: child, directory: directory)
    }

    var url: String { "https://127.0.0.1:\(self.port)" }

    /// Sets the answer of a path, initially 404. Status 0 closes the connection after the request was read, -1 never
    /// answers.
    func answer(_ path: String, _ status: Int, _ body: String, type: String = "application/json") throws {
        let name = "answer-" + path.replacing("/", with: "_")
        let answer: JSON = ["status": .integer(Int64(status)), "body": .string(body), "type": .string(type)]
        try self.directory.write(name, answer.serialized)
    }

    var seen: [Seen] {
        let lines = (try? self.directory.read("requests")) ?? []
        return lines.split(separator: UInt8(ascii: "\n")).compactMap { line in
            guard let object = (try? JSON(parsing: Array(line)))?.object else { return nil }
            let headers = (object["headers"]?.object?.members ?? []).map { ($0.name, $0.value.string ?? "") }
            return Seen(
                method: object["method"]?.string ?? "", path: object["path"]?.string ?? "",
                headers: Dictionary(headers) { $1 }, body: object["body"]?.string ?? "")
        }
    }

    func stop() async { _ = await self.child.stop() }

    private static let script = #"""
        import json, os, socket, ssl, sys, threading

        folder = sys.argv[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/certificate.pem", folder + "/key.pem")
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        noting = threading.Lock()

        def serve(raw):
            try:
                raw.settimeout(30)
                with context.wrap_socket(raw, server_side=True) as connection:
                    received = b""
                    while True:
                        while b"\r\n\r\n" not in received:
                            piece = connection.recv(65536)
                            if not piece:
                                return
                            received += piece
                        head, received = received.split(b"\r\n\r\n", 1)
                        lines = head.decode("latin-1").split("\r\n")
                        fields = {}
                        for line in lines[1:]:
                            name, value = line.split(": ", 1)
                            fields[name.lower()] = value
                        length = int(fields.get("content-length", "0"))
                        while len(received) < length:
                            received += connection.recv(65536)
                        body, received = received[:length], received[length:]
                        method, path = lines[0].split(" ")[:2]
                        with noting, open(folder + "/requests", "a") as file:
                            file.write(json.dumps({"method": method, "path": path, "headers": fields,
                                                   "body": body.decode()}) + "\n")
                        name = folder + "/answer-" + path.replace("/", "_")
                        answer = {"status": 404, "body": "{}", "type": "application/json"}
                        if os.path.exists(name):
                            answer = json.load(open(name))
                        if answer["status"] == 0:
                            return
                        if answer["status"] < 0:
                            while connection.recv(65536):
                                pass
                            return
                        content = answer["body"].encode()
                        connection.sendall(("HTTP/1.1 %d Whatever\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (
                            answer["status"], answer["type"], len(content))).encode() + content)
            except (OSError, ValueError):
                pass

        print("listening %d" % listener.getsockname()[1], flush=True)
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=serve, args=(accepted,), daemon=True).start()
        """#
}
