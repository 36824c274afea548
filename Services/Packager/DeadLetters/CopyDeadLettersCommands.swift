import ArgumentParser
import FoundationEssentials
import Kafka
import Model
import Operations

/// A dead letter as a line of JSON, for a file: everything that its record has.
enum DeadLetterLine {
    /// The longest line, in bytes: a record of 4 MiB in base64, with its headers.
    static let limit = 16 << 20

    static func json(_ letter: DeadLetterRecord) -> JSON {
        [
            "code": .string(letter.code), "order": .string(letter.order),
            "milliseconds": .integer(letter.record.timestampMilliseconds), "key": self.text(letter.record.key),
            "value": self.text(letter.record.value),
            "headers": .array(
                letter.record.headers.map { ["name": .string($0.name), "value": self.text($0.value)] }),
        ]
    }

    /// Returns the record of a line.
    ///
    /// - Throws: `JSONError`, or `ValidationError` if it is not a dead letter.
    static func message(_ line: String, topic: String) throws -> KafkaMessage {
        guard line.utf8.count <= Self.limit else { throw ValidationError("it is longer than \(Self.limit) bytes") }
        let object = try JSON(parsing: Array(line.utf8)).object
        guard let object, let milliseconds = object["milliseconds"]?.integer, milliseconds > 0,
            let headers = object["headers"]?.array
        else { throw ValidationError("it must have milliseconds above 0 and headers") }
        let record = KafkaRecord(
            topic: topic, partition: 0, offset: 0, timestampMilliseconds: milliseconds,
            key: try self.bytes(object["key"]), value: try self.bytes(object["value"]),
            headers: try headers.map { header in
                guard let name = header.object?["name"]?.string else { throw ValidationError("a header has no name") }
                return KafkaHeader(name: name, value: try self.bytes(header.object?["value"]))
            })
        guard case .letter(let letter) = DeadLetterRecord.read(record) else {
            throw ValidationError("it is not a dead letter: its headers name no code and no origin")
        }
        return KafkaMessage(
            topic: topic, key: record.key, value: record.value, headers: letter.record.headers,
            timestampMilliseconds: milliseconds)
    }

    private static func text(_ bytes: [UInt8]?) -> JSON {
        bytes.map { .string(Data($0).base64EncodedString()) } ?? .null
    }

    private static func bytes(_ json: JSON?) throws -> [UInt8]? {
        guard let json, json != .null else { return nil }
        guard let data = json.string.flatMap({ Data(base64Encoded: $0) }) else {
            throw ValidationError("key and values must be base64 or null")
        }
        return Array(data)
    }
}

extension DeadLettersCommand.Context {
    /// Reads whole dead letters, a few at a time.
    func each(
        _ entries: [DeadLetterIndex.Entry], _ body: ([DeadLetterRecord]) async throws -> Void
    ) async throws {
        try await self.letters.pages(of: entries, 64, \.self) { try await body($0.map(\.value)) }
    }

    /// Closes dead letters.
    ///
    /// - Parameters:
    ///   - who: the name for the markers.
    ///   - producer: nil to count only.
    /// - Returns: the number of dead letters of each order.
    func close(
        _ ledger: DeadLetterIndex, by who: String, _ producer: KafkaProducer?
    ) async throws -> [String: Int] {
        var closed: [String: Int] = [:]
        try await self.each(ledger.entries) { letters in
            for outcome in await producer?.produce(letters.map { $0.purge(by: who, self.topics) }) ?? [] {
                _ = try outcome.get()
            }
            for letter in letters { closed[letter.order, default: 0] += 1 }
        }
        return closed
    }

    /// Makes a producer for the topic of dead letters, and closes it and the reader at the end.
    func producing(_ body: (KafkaProducer) async throws -> Void) async throws {
        let producer = try KafkaProducer(
            self.environment.producing(within: self.environment.common.shutdownLimit / 2),
            topics: [self.topics.deadLetters])
        let close = {
            await producer.close()
            await self.reader.close()
        }
        try await withCleanup(close) { try await body(producer) }
    }
}

/// `waybill-packager dead-letters export`
struct ExportDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Prints whole dead letters, one JSON object per line, for import.",
        discussion: """
            Those that were replayed or closed are left out. The lines have the customers' data: keep the file as you \
            keep the topic.
            """)

    @OptionGroup var choice: DeadLetterChoice

    func run() async throws {
        let context = try DeadLettersCommand.Context()
        let ledger = try await context.survey(try self.choice.filter(nowMilliseconds: nowMilliseconds()))
        try await context.each(ledger.newest(.max).filter { !ledger.isReplayed($0) }) { letters in
            for letter in letters { DeadLettersCommand.say(DeadLetterLine.json(letter).text) }
        }
        await context.reader.close()
    }
}

/// `waybill-packager dead-letters import`
struct ImportDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Publishes the dead letters on standard input to waybill.dead-letters, as export printed them.",
        discussion: """
            They keep their times, so retention may delete old ones at once. One that is there already counts as its \
            copy: it is listed once, and stays replayed or closed. Exit codes: 0: all are published; 1: stopped at the \
            line that is named, after all before it; run it again with the whole file or the rest.
            """)

    func run() async throws {
        let context = try DeadLettersCommand.Context()
        var (number, published) = (0, 0)
        try await context.producing { producer in
            // Nothing else of this command runs while it waits for a line.
            while let line = readLine() {
                number += 1
                do {
                    let message = try DeadLetterLine.message(line, topic: context.topics.deadLetters)
                    _ = try await producer.produce(message)
                } catch {
                    throw ValidationError("line \(number): \(error)")
                }
                published += 1
            }
        }
        DeadLettersCommand.say("\(published) dead letters published")
    }
}

/// `waybill-packager dead-letters purge`
struct PurgeDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Closes dead letters for which nothing is to be done.",
        discussion: """
            A marker record for each says who closed it and when; show prints that. A closed dead letter is not \
            listed, counted, exported or replayed. Its record stays until the retention of the topic ends, as Kafka \
            cannot delete a single one. A change that waits in Redis for its order (unknown-order) is applied \
            nevertheless if the order is created. Exit codes: 0: done; 1: stopped early, to be run again; 64: it \
            could not start.
            """)

    @OptionGroup var choice: DeadLetterChoice

    @Option(help: "Who closes them, for the marker; default: the name of the user of the system.")
    var by: String?

    @Flag(help: "Print how many would be closed; write nothing.")
    var dryRun = false

    func validate() throws {
        guard self.choice.until != nil else { throw ValidationError("--before is needed") }
    }

    func run() async throws {
        let context = try DeadLettersCommand.Context()
        let ledger = try await context.survey(try self.choice.filter(nowMilliseconds: nowMilliseconds()))
        DeadLettersCommand.say(DeadLetterFormatter.summary(ledger))
        let who = DeadLetterPurge.author(self.by)
        guard !self.dryRun else {
            await context.reader.close()
            return
        }
        var closed = 0
        try await context.producing { producer in
            closed = try await context.close(ledger, by: who, producer).values.reduce(0, +)
        }
        DeadLettersCommand.say("\(closed) dead letters closed by \(who)")
    }
}
