import Foundation

/// A server with scripted answers about topics and their settings: librdkafka's own broker has no DescribeConfigs and
/// no access lists, and creates no topics on request.
///
/// No group has committed anything.
/// Source: Kafka protocol guide, ApiVersions 0-3, Metadata 1, OffsetFetch 1, FindCoordinator 0, CreateTopics 0,
/// InitProducerId 0, DescribeConfigs 1
public final class ScriptedKafka: Sendable {
    /// The server's answers about a topic.
    public struct Topic: Sendable {
        /// Kafka's error code for the topic: 0 none, 3 unknown, 29 not authorized.
        public var error = 0
        /// The number of replicas of each partition, and of those in sync.
        public var partitions: [(replicas: Int, inSync: Int)] = [(3, 3)]
        /// The number of the first partition that has no leader; nil if all have one.
        public var leaderlessFrom: Int?
        /// The settings in effect; with nil the server refuses to report them.
        public var settings: [String: String]?

        public init(settings: [String: String]? = nil) { self.settings = settings }
    }

    /// `127.0.0.1:<port>`.
    public let bootstrap: String
    private let directory: TemporaryDirectory
    private let child: ChildProcess

    private init(bootstrap: String, directory: TemporaryDirectory, child: ChildProcess) {
        self.bootstrap = bootstrap
        self.directory = directory
        self.child = child
    }

    /// Starts the server and returns when it listens.
    public static func start(_ topics: [String: Topic]) async throws -> ScriptedKafka {
        let directory = try TemporaryDirectory("scripted-kafka")
        let script = try directory.write("script.json", try Self.text(topics))
        let child = try ChildProcess("python3", ["-u", "-c", Self.program, script])
        let line = try await child.line(containing: "listening")
        return ScriptedKafka(
            bootstrap: "127.0.0.1:\(line.split(separator: " ").last ?? "")", directory: directory, child: child)
    }

    /// Changes the answers from this call on.
    public func tell(_ topics: [String: Topic]) throws {
        try self.directory.write("script.json", try Self.text(topics))
    }

    /// Ends the server.
    public func stop() async { await self.child.stop() }

    private static func text(_ topics: [String: Topic]) throws -> String {
        let object = topics.mapValues { topic in
            let partitions = topic.partitions.map { [$0.replicas, $0.inSync] }
            return [
                "error": topic.error, "partitions": partitions, "settings": topic.settings ?? false,
                "led": topic.leaderlessFrom ?? partitions.count,
            ]
                as [String: Any]
        }
        return String(decoding: try JSONSerialization.data(withJSONObject: object), as: UTF8.self)
    }

    private static let program = KafkaServerProgram.with(
        #"""
        import json, os

        VERSIONS = [(3, 0, 1), (9, 1, 1), (10, 0, 0), (18, 0, 3), (19, 0, 0), (22, 0, 0), (32, 0, 1)]

        def names(rest):
            count, = struct.unpack(">i", rest[:4])
            rest, found = rest[4:], []
            for _ in range(max(count, 0)):
                length, = struct.unpack(">h", rest[:2])
                found.append(rest[2:2 + length].decode())
                rest = rest[2 + length:]
            return found

        def metadata(rest):
            brokers = array([struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">ih", server.getsockname()[1], -1)])
            topics = []
            for name in names(rest):
                topic = script().get(name, {"error": 3, "partitions": []})
                found = [] if topic["error"] else topic["partitions"]
                partitions = [
                    struct.pack(">hii", 0, index, 1 if index < topic.get("led", 1 << 30) else -1) + array([struct.pack(">i", n + 1) for n in range(replicas)])
                    + array([struct.pack(">i", n + 1) for n in range(synced)])
                    for index, (replicas, synced) in enumerate(found)]
                topics.append(struct.pack(">h", topic["error"]) + text(name) + b"\0" + array(partitions))
            return brokers + struct.pack(">i", 1) + array(topics)

        def settings(rest):
            count, = struct.unpack(">i", rest[:4])
            rest, results = rest[4:], []
            for _ in range(count):
                kind, length = struct.unpack(">bh", rest[:3])
                name = rest[3:3 + length].decode()
                rest = rest[3 + length:]
                keys, = struct.unpack(">i", rest[:4])
                rest = rest[4:]
                for _ in range(max(keys, 0)):
                    rest = rest[2 + struct.unpack(">h", rest[:2])[0]:]
                values = script().get(name, {"settings": False})["settings"]
                error = 29 if values is False else 0
                entries = [
                    text(key) + text(value) + struct.pack(">bbbi", 0, 5, 0, 0)
                    for key, value in sorted((values or {}).items())]
                results.append(struct.pack(">hhb", error, -1, kind) + text(name) + array(entries))
            return struct.pack(">i", 0) + array(results)

        def taken(rest):
            length, = struct.unpack(">h", rest[:2])
            return rest[2:2 + length].decode(), rest[2 + length:]

        def create(rest):
            topics, results = script(), []
            count, = struct.unpack(">i", rest[:4])
            rest = rest[4:]
            for _ in range(count):
                name, rest = taken(rest)
                partitions, replicas, _, entries = struct.unpack(">ihii", rest[:14])
                rest, settings = rest[14:], {}
                for _ in range(entries):
                    key, rest = taken(rest)
                    settings[key], rest = taken(rest)
                exists = name in topics
                if not exists:
                    topics[name] = {"error": 0, "partitions": [[replicas, replicas]] * partitions, "settings": settings}
                results.append(text(name) + struct.pack(">h", 36 if exists else 0))
            with open(sys.argv[1] + ".new", "w") as file:
                json.dump(topics, file)
            os.replace(sys.argv[1] + ".new", sys.argv[1])
            return array(results)

        def committed(rest):
            rest, topics = taken(rest)[1], []
            count, = struct.unpack(">i", rest[:4])
            rest = rest[4:]
            for _ in range(count):
                name, rest = taken(rest)
                count, = struct.unpack(">i", rest[:4])
                partitions, rest = struct.unpack(f">{count}i", rest[4:4 + 4 * count]), rest[4 + 4 * count:]
                topics.append(text(name) + array([struct.pack(">iqhh", number, -1, -1, 0) for number in partitions]))
            return array(topics)

        def serve(connection):
            for api, version, number, rest in requests(connection):
                if api == 18:
                    answer = versions(version)
                elif api == 3:
                    answer = metadata(rest)
                elif api == 9:
                    answer = committed(rest)
                elif api == 10:
                    answer = struct.pack(">hi", 0, 1) + text("127.0.0.1") + struct.pack(">i", server.getsockname()[1])
                elif api == 19:
                    answer = create(rest)
                elif api == 22:
                    answer = struct.pack(">ihqh", 0, 0, 1, 0)
                elif api == 32:
                    answer = settings(rest)
                else:
                    continue
                reply(connection, number, answer)

        def script():
            with open(sys.argv[1]) as file:
                return json.load(file)

        listen(serve)
        """#)
}
