import ArgumentParser
import FoundationEssentials
import Kafka
import Model
import Operations
import Redis
import Store

/// `waybill-packager forget`: removes orders whose customers want to be forgotten.
struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Removes orders with all that belongs to them, and says what is left of them until when.",
        discussion: """
            A removal is published for each order, and the command waits until the packagers have applied it: state, \
            package and registrations are gone, and changes that waited for the order. Then registrations and \
            notifications that only Kafka has get their tombstones, entries of parcels are deleted, and its dead \
            letters are closed; a marker says who did it. What Kafka and Redis's files keep for a while is listed with \
            the last date, from the settings of the topics as they are. Orders that are unknown are removed too, in \
            case a change is on its way. The removals have to be the last changes: one after them creates the order \
            again. The command can be run again at any time. Reads the same configuration as the service. Exit \
            codes: 0: done; 1: something is not done (it is named; run it again); 64: it could not start.
            """)

    @Option(
        help: "An order, <orderTypeIdentifier>/<orderIdentifier>. May be given several times.",
        transform: { try OrderKey($0) })
    var order: [OrderKey] = []

    @Option(help: "Path of a file of orders, one per line, at most 10000.")
    var file: String?

    @Option(help: "Path of a file for the report, as JSON.")
    var report: String?

    @Option(help: "Seconds that the packagers have for each hundred orders, 1 to 3600.")
    var wait = 60

    @Option(help: "Who closes the dead letters, for their markers; default: the name of the user of the system.")
    var by: String?

    @Flag(help: "Print what would be removed, and what would be left; write nothing.")
    var dryRun = false

    func validate() throws {
        guard self.file != nil || !self.order.isEmpty else { throw ValidationError("--order or --file is needed") }
        guard (1...3600).contains(self.wait) else {
            throw ValidationError("--wait \(self.wait): must be from 1 to 3600")
        }
    }

    func run() async throws {
        let keys = try self.keys()
        let context = try DeadLettersCommand.Context()
        let sources = try context.sources()
        let environment = context.environment
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        let admin = try KafkaAdmin(environment.kafka)
        let producer =
            self.dryRun
            ? nil
            : try KafkaProducer(
                environment.producing(within: environment.common.shutdownLimit / 2),
                topics: [
                    context.topics.orderChanges, context.topics.deadLetters, context.topics.registrations,
                ])
        let cold = ColdOrders(context.environment)
        let close = {
            await producer?.close()
            await admin.close()
            await context.reader.close()
            await cold.close()
            await redis.close()
        }
        let report = try await withCleanup(close) {
            try await ForgetRun(
                letters: context, store: cold.store(ofCompleteView: redis),
                registrations: Registrations(redis: redis), producer: producer, admin: admin,
                sourceTopics: sources?.topics ?? [], by: DeadLetterPurge.author(self.by), patience: .seconds(self.wait)
            ).run(keys)
        }
        DeadLettersCommand.say(report.text)
        if let path = self.report {
            do {
                try PrivateFile.write(report.json.serialized + [UInt8(ascii: "\n")], to: path)
            } catch {
                throw ValidationError("--report \(path): cannot write the file: \(error)")
            }
        }
        guard report.isDone else { throw ExitCode(1) }
    }

    private func keys() throws -> [OrderKey] {
        guard let path = self.file else { return OrderList.once(self.order) }
        let bytes: [UInt8]
        do {
            bytes = try FileContent.read(path, limit: OrderList.byteLimit, isPipeAllowed: true)
        } catch {
            throw ValidationError("--file \(path): cannot read the file: \(error)")
        }
        return OrderList.once(self.order + (try OrderList.keys(bytes, path: path)))
    }
}

/// A file of orders: a key on each line. Empty lines are skipped.
enum OrderList {
    /// The most orders of a file.
    static let limit = 10_000
    /// The most bytes of a file.
    static let byteLimit = 8 << 20

    /// - Throws: `ValidationError` that names the line.
    static func keys(_ bytes: [UInt8], path: String) throws -> [OrderKey] {
        guard bytes.count <= Self.byteLimit else {
            throw ValidationError("--file \(path): it has more than \(Self.byteLimit) bytes")
        }
        var keys: [OrderKey] = []
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let text = String(decoding: line, as: UTF8.self).trimmed
            guard !text.isEmpty else { continue }
            do {
                keys.append(try OrderKey(text))
            } catch {
                throw ValidationError("--file \(path): line \(index + 1): \(error)")
            }
            guard keys.count <= Self.limit else {
                throw ValidationError("--file \(path): line \(index + 1): a file has at most \(Self.limit) orders")
            }
        }
        return keys
    }

    /// Returns the keys, each once, in their sequence.
    static func once(_ keys: [OrderKey]) -> [OrderKey] {
        var seen: Set<OrderKey> = []
        return keys.filter { seen.insert($0).inserted }
    }
}

extension String {
    /// The text without white space at its ends.
    fileprivate var trimmed: String {
        let text = self.drop { $0.isWhitespace }
        return String(text.reversed().drop { $0.isWhitespace }.reversed())
    }
}
