import ArgumentParser
import Foundation
import Kafka
import Model
import NIOPosix
import Redis

/// `waybill-dev search`: looks for texts that must not be stored anywhere, such as a payment token.
struct SearchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "search", abstract: "Searches everything that a stack holds for texts that must not be there.",
        discussion: """
            Reads the stack's logs, the metrics of its services, Redis and all topics of Kafka, and prints each place \
            with one of the texts. Ends with 1 if there is one, or if nothing was searched.
            """)

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Argument(help: "The texts.") var texts: [String]

    func validate() throws {
        guard !self.texts.isEmpty, !self.texts.contains("") else {
            throw ValidationError("texts to look for, not empty")
        }
    }

    func run() async throws {
        let stack = try StackEnvironment(file: self.stack)
        let sources = [
            try self.logs(stack), try await self.metrics(stack), try await self.redis(stack),
            try await self.kafka(stack),
        ]
        for source in sources where source.count == 0 {
            throw ToolError(.check, "searching \(source.name): there is nothing, so nothing was searched")
        }
        let found = sources.flatMap(\.found)
        for place in found { Console.line(place) }
        guard found.isEmpty else { throw ExitCode.failure }
        Console.line("none of the texts is in " + sources.map { "\($0.count) \($0.name)" }.joined(separator: ", "))
    }

    /// One kind of data that is searched.
    private struct Source {
        let name: String
        var count = 0
        /// The texts that were found, with their places.
        var found: [String] = []

        mutating func search(_ content: String, _ place: String, for texts: [String]) {
            self.count += 1
            for text in texts where content.contains(text) { self.found.append("\(place): \(text)") }
        }
    }

    private func logs(_ stack: StackEnvironment) throws -> Source {
        var source = Source(name: "logs")
        guard let folder = stack.logs else { return source }
        for name in try FileManager.default.contentsOfDirectory(atPath: folder).sorted() {
            let path = "\(folder)/\(name)"
            source.search(String(decoding: try readFile(path), as: UTF8.self), path, for: self.texts)
        }
        return source
    }

    private func metrics(_ stack: StackEnvironment) async throws -> Source {
        var source = Source(name: "texts of metrics")
        let http = try HTTPClient()
        for url in stack.operations {
            let answer = try await http.send(HTTPRequest(url: url + "/metrics"))
            guard answer.status == 200 else { throw ToolError(.check, "GET \(url)/metrics: \(answer.status)") }
            source.search(String(decoding: answer.body, as: UTF8.self), url + "/metrics", for: self.texts)
        }
        await http.close()
        return source
    }

    private func redis(_ stack: StackEnvironment) async throws -> Source {
        var source = Source(name: "keys of Redis")
        guard let url = stack.redis else { throw ToolError(.input, "reading \(self.stack): REDIS_URL is missing") }
        let redis = RedisClient(try RedisConfiguration(url: url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        // A compressed dump would hide a text.
        _ = try await redis.send(RedisCommand("CONFIG", "SET", "rdbcompression", "no"))
        for key in (try await redis.send(RedisCommand("KEYS", "*")).array ?? []).compactMap(\.text) {
            let dump = try await redis.send(RedisCommand("DUMP", .string(key))).text ?? ""
            source.search(key + dump, "Redis \(key)", for: self.texts)
        }
        await redis.close()
        return source
    }

    private func kafka(_ stack: StackEnvironment) async throws -> Source {
        var found = Source(name: "records of Kafka")
        let reader = try KafkaReader(KafkaConfiguration.ofTool(bootstrap: stack.kafka, file: stack.kafkaProperties))
        let topics = Topics()
        for topic in [
            topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters, topics.pushPending,
        ] {
            for bounds in try await reader.bounds(of: topic) {
                try await reader.read(
                    topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000,
                    bytes: 8 << 20
                ) { records in
                    for record in records {
                        let bytes =
                            (record.key ?? []) + (record.value ?? []) + record.headers.flatMap { $0.value ?? [] }
                        found.search(String(decoding: bytes, as: UTF8.self), record.receipt.origin, for: self.texts)
                    }
                }
            }
        }
        await reader.close()
        return found
    }
}
