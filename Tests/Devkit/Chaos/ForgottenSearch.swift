import Kafka
import Model
import NIOPosix
import Operations
import Redis
import Store

/// Searches Redis and the topics, as compaction would leave them, for what must not be left of forgotten orders:
/// contacts, push tokens and devices anywhere, and the orders themselves wherever a removal ends them.
///
/// Changes and dead letters stay in their topics until the retention ends, so only open dead letters count.
struct ForgottenSearch: Sendable {
    /// The kinds of texts, each of 32 hexadecimal digits.
    enum Mark: Hashable, Sendable { case order, contact, device, pushToken }

    static let length = 32

    private let run: ChaosRun
    private let keys: Set<String>
    let marks: [String: Mark]

    /// - Parameter orders: those that are gone; devices that are registered for no other order are searched for as
    ///   well.
    init(_ run: ChaosRun, _ orders: [Int]) async throws {
        self.run = run
        var marks: [String: Mark] = [:]
        var keys: Set<String> = []
        for order in orders {
            let identifier = run.plan.orders[order].identifier
            keys.insert("\(run.stack.orderType)/\(identifier)")
            marks[identifier] = .order
            marks[ChaosPlan.mark(of: identifier)] = .contact
        }
        for device in run.devices where await device.registered.isEmpty {
            marks[device.wallet.deviceIdentifier] = .device
            marks[String(device.wallet.pushToken.prefix(Self.length))] = .pushToken
        }
        self.keys = keys
        self.marks = marks
    }

    /// Returns a line for each place with something that must not be there.
    func found() async throws -> [String] {
        try await self.inRedis() + self.inTopics() + self.inDeadLetters()
    }

    /// Returns the marks in some bytes.
    static func marks(_ bytes: [UInt8], _ marks: [String: Mark]) -> Set<Mark> {
        var found: Set<Mark> = []
        var start = 0
        for place in 0...bytes.count {
            if place < bytes.count, Self.isDigit(bytes[place]) { continue }
            if place - start >= Self.length {
                for first in start...(place - Self.length) {
                    let text = String(decoding: bytes[first..<first + Self.length], as: UTF8.self)
                    if let mark = marks[text] { found.insert(mark) }
                }
            }
            start = place + 1
        }
        return found
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    /// Returns the marks that a key of Redis must not have.
    static func wrong(_ marks: Set<Mark>, inKey key: String) -> Set<Mark> {
        let kind = StoreKeyKind.allCases.filter { key.hasPrefix($0.rawValue) }
            .max { $0.rawValue.utf8.count < $1.rawValue.utf8.count }
        let mayOutlive = kind?.personalData.map { $0.end != .removal } ?? false
        return mayOutlive ? marks.subtracting([.order]) : marks
    }

    private func inRedis() async throws -> [String] {
        guard let url = self.run.stack.redis else { return [] }
        let redis = RedisClient(try RedisConfiguration(url: url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let result: Result<[String], any Error>
        do { result = .success(try await self.search(redis)) } catch { result = .failure(error) }
        await redis.close()
        return try result.get()
    }

    private func search(_ redis: RedisClient) async throws -> [String] {
        // A compressed dump would hide a text.
        _ = try await redis.send(RedisCommand("CONFIG", "SET", "rdbcompression", "no"))
        var found: [String] = []
        let keys = (try await redis.send(RedisCommand("KEYS", "*")).array ?? []).compactMap(\.text)
        for start in stride(from: 0, to: keys.count, by: 100) {
            let some = keys[start..<min(start + 100, keys.count)]
            let dumps = try await redis.pipeline(some.map { RedisCommand("DUMP", .string($0)) })
            for (key, dump) in zip(some, dumps) {
                let marks = Self.wrong(Self.marks(Array(key.utf8) + (dump.bytes ?? []), self.marks), inKey: key)
                found += marks.map { "\($0) in Redis, \(key)" }
            }
        }
        return found
    }

    /// Of each key of a partition the newest record counts; of a tombstone its headers.
    private func inTopics() async throws -> [String] {
        let topics = Topics()
        let reader = try KafkaReader(self.run.stack.kafkaConfiguration())
        var found: [String] = []
        for topic in [topics.orders, topics.registrations, topics.pushPending] {
            for bounds in try await reader.bounds(of: topic) {
                var newest: [[UInt8]: KafkaRecord] = [:]
                try await reader.read(
                    topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000,
                    bytes: 8 << 20
                ) { records in
                    for record in records { newest[record.key ?? []] = record }
                }
                for record in newest.values {
                    var content: [[UInt8]] = record.headers.map { $0.value ?? [] }
                    if let value = record.value { content += [record.key ?? [], value] }
                    var marks = Self.marks(Array(content.joined(separator: [0])), self.marks)
                    if record.value == nil { marks.remove(.order) }
                    found += marks.map { "\($0) in the record at \(record.receipt.origin)" }
                }
            }
        }
        await reader.close()
        return found
    }

    private func inDeadLetters() async throws -> [String] {
        let reader = try KafkaReader(self.run.stack.kafkaConfiguration())
        let letters = DeadLetterTopic(reader: reader, topic: Topics().deadLetters)
        let index = try await letters.survey(DeadLetterFilter(orders: self.keys))
        await reader.close()
        return index.entries.map { "an open dead letter at \($0.position)" }
    }
}
