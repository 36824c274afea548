/// The code shared by the Python servers that speak a part of the Kafka protocol.
///
/// Source: Kafka protocol guide, "Protocol Primitive Types", ApiVersions 0-3
enum KafkaServerProgram {
    /// Returns a program: the shared code, then `rest`, which defines `VERSIONS` and calls `listen` with a function
    /// that serves one connection.
    static func with(_ rest: String) -> String { Self.common + rest }

    /// `VERSIONS` has the number, the lowest and the highest version of each request.
    private static let common = #"""
        import socket, struct, sys, threading

        def read(connection, count):
            data = b""
            while len(data) < count:
                more = connection.recv(count - len(data))
                if not more:
                    raise EOFError
                data += more
            return data

        # Without end: (request, version, number, body) of each.
        def requests(connection):
            while True:
                whole = read(connection, struct.unpack(">i", read(connection, 4))[0])
                api, version, number, length = struct.unpack(">hhih", whole[:10])
                yield api, version, number, whole[10 + max(length, 0):]

        def reply(connection, number, answer):
            connection.sendall(struct.pack(">ii", len(answer) + 4, number) + answer)

        def text(value):
            return struct.pack(">h", len(value)) + value.encode()

        def array(items):
            return struct.pack(">i", len(items)) + b"".join(items)

        def versions(version):
            rows = [struct.pack(">hhh", *row) for row in VERSIONS]
            if version < 3:
                return struct.pack(">h", 0) + array(rows) + (struct.pack(">i", 0) if version > 0 else b"")
            rest = b"".join(row + b"\0" for row in rows)
            return struct.pack(">hB", 0, len(rows) + 1) + rest + struct.pack(">ib", 0, 0)

        # wrap: makes of a connection the one that is served; serve: called with that in a thread of its own.
        def listen(serve, wrap=lambda raw: raw):
            def welcome(raw):
                try:
                    with wrap(raw) as connection:
                        serve(connection)
                except (OSError, EOFError):
                    pass

            print("listening", server.getsockname()[1])
            while True:
                threading.Thread(target=welcome, args=(server.accept()[0],), daemon=True).start()

        server = socket.create_server(("127.0.0.1", 0))

        """#
}
