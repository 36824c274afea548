/// A proxy to a real Redis server whose answers say another version or another time, or that gets other commands.
public final class RedisDisguise: Sendable {
    public let url: String
    private let child: ChildProcess

    private init(url: String, child: ChildProcess) {
        self.url = url
        self.child = child
    }

    /// Starts the proxy and returns when it listens. It ends with its last reference.
    ///
    /// - Parameters:
    ///   - major: the first number of the version; nil leaves it.
    ///   - clockSeconds: how far the clock is ahead.
    ///   - replacing: texts of commands, each with the text of the same length that the server gets instead: the digest
    ///     of another script, for example.
    public static func start(
        before server: RedisServer, major: Int? = nil, clockSeconds: Int = 0, replacing texts: [(String, String)] = []
    ) async throws -> RedisDisguise {
        let child = try ChildProcess(
            "python3",
            ["-u", "-c", Self.program, "\(server.port)", major.map(String.init) ?? "", "\(clockSeconds)"]
                + texts.flatMap { [$0.0, $0.1] })
        let line = try await child.line(containing: "listening")
        return RedisDisguise(url: "redis://127.0.0.1:\(line.split(separator: " ").last ?? "")", child: child)
    }

    /// The answers keep their lengths, which the protocol states before them.
    private static let program = #"""
        import re, socket, sys, threading

        port, major, ahead = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
        texts = [text.encode() for text in sys.argv[4:]]

        def replaced(data):
            for text, other in zip(texts[::2], texts[1::2]):
                data = data.replace(text, other)
            return data

        def disguise(data):
            if major:
                data = re.sub(rb"redis_version:\d", b"redis_version:" + major, data)
            return re.sub(rb"(\*2\r\n\$10\r\n)(\d{10})", lambda found: found[1] + b"%010d" % (int(found[2]) + ahead), data)

        def pump(source, target, change):
            try:
                while data := source.recv(65536):
                    target.sendall(change(data))
            except OSError:
                pass
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        server = socket.create_server(("127.0.0.1", 0))
        print("listening", server.getsockname()[1])
        while True:
            client = server.accept()[0]
            upstream = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=pump, args=(client, upstream, replaced), daemon=True).start()
            threading.Thread(target=pump, args=(upstream, client, disguise), daemon=True).start()

        """#
}
