import ArgumentParser
import Dispatch
import Glibc
import TestKit

/// `waybill-dev kafka`: a Kafka-protocol broker in the foreground, for demos and tests.
struct KafkaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kafka",
        abstract: "Runs a Kafka-protocol broker on 127.0.0.1 until SIGTERM or SIGINT.",
        discussion: """
            librdkafka's mock broker: it keeps at most 5 MiB per partition, drops the oldest silently, and has no disk \
            and no compaction. Prints "ready bootstrap=127.0.0.1:PORT" when it accepts connections. SIGUSR1 stops it: \
            every connection is cut and new ones are refused, but stored records remain; SIGUSR2 starts it again. With \
            --leaderless, SIGHUP takes the leader from the partitions that the file lists, as if its broker were \
            dead, gives it back to all others, and prints "leaderless COUNT".
            """)

    /// Source: Design §9
    static let defaultTopics = [
        "waybill.order-changes", "waybill.orders", "waybill.registrations", "waybill.dead-letters",
        "waybill.push-pending",
    ].map { KafkaBroker.Topic($0, partitions: 64) }

    @Option(
        name: .customLong("topic"), help: "NAME:PARTITIONS, may be repeated. Default: Waybill's topics with 64 each.")
    var topics: [String] = []

    @Option(help: "Write the address to this file when ready.")
    var addressFile: String?

    @Option(help: "Listen on this port instead of a free one, so that a restarted broker has the same address.")
    var port: UInt16 = 0

    @Option(help: "The file with the partitions that have no leader, TOPIC/PARTITION in each line.")
    var leaderless: String?

    func run() async throws {
        let topics = try self.topics.isEmpty ? Self.defaultTopics : self.topics.map(Self.topic)
        let (orders, order) = AsyncStream.makeStream(of: Int32.self, bufferingPolicy: .bufferingNewest(16))
        // Installed before the broker starts, so that an early signal is not lost. A single queue keeps their order.
        let queue = DispatchQueue(label: "signals")
        let numbers = [SIGTERM, SIGINT, SIGUSR1, SIGUSR2] + (self.leaderless == nil ? [] : [SIGHUP])
        let signals = numbers.map { number in
            _ = signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { order.yield(number) }
            // Resumed immediately: Dispatch traps if a source is released that was never resumed.
            source.resume()
            return source
        }
        defer { for source in signals { source.cancel() } }
        let broker = try KafkaBroker(topics: topics, port: self.port)
        if let addressFile { try Self.publish(broker.bootstrap + "\n", to: addressFile) }
        Self.say("ready bootstrap=\(broker.bootstrap)\n")
        var leaderless: Set<Substring> = []

        for await order in orders {
            switch order {
            case SIGUSR1:
                try broker.setDown()
                Self.say("down\n")
            case SIGUSR2:
                try broker.setUp()
                Self.say("up\n")
            case SIGHUP:
                do {
                    let text = try readFile(self.leaderless ?? "")
                    let listed = Set(String(decoding: text, as: UTF8.self).split(separator: "\n"))
                    for place in leaderless.subtracting(listed) { try Self.setLeader(of: place, true, broker) }
                    for place in listed.subtracting(leaderless) { try Self.setLeader(of: place, false, broker) }
                    leaderless = listed
                    Self.say("leaderless \(listed.count)\n")
                } catch {
                    // The records that it has are worth more than this change.
                    Self.say("--leaderless: \(error)\n")
                }
            default:
                broker.close()
                return
            }
        }
    }

    private static func setLeader(of place: Substring, _ exists: Bool, _ broker: KafkaBroker) throws {
        guard let slash = place.lastIndex(of: "/"), let partition = Int32(place[place.index(after: slash)...]) else {
            throw ValidationError("--leaderless: \(place): must be TOPIC/PARTITION")
        }
        try broker.setLeader(of: String(place[..<slash]), partition: partition, exists: exists)
    }

    static func topic(_ text: String) throws -> KafkaBroker.Topic {
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let partitions = Int(text[text.index(after: colon)...]), (1...10_000).contains(partitions)
        else { throw ValidationError("--topic \(text): must be NAME:PARTITIONS") }
        return KafkaBroker.Topic(String(text[..<colon]), partitions: partitions)
    }

    /// Writes a file atomically, so that a reader that waits for it never reads half of it.
    private static func publish(_ text: String, to path: String) throws {
        let draft = "\(path).\(getpid())"
        guard let file = unsafe fopen(draft, "we") else {
            throw ValidationError("--address-file \(path): cannot write")
        }
        let isWritten = unsafe fputs(text, file) >= 0
        guard unsafe fclose(file) == 0, isWritten, unsafe rename(draft, path) == 0 else {
            throw ValidationError("--address-file \(path): cannot write")
        }
    }

    /// Prints unbuffered, also into a pipe.
    private static func say(_ text: String) {
        var bytes = Array(text.utf8)
        _ = unsafe Glibc.write(STDOUT_FILENO, &bytes, bytes.count)
    }
}
