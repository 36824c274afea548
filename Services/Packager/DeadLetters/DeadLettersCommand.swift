import ArgumentParser
import FoundationEssentials
import Kafka
import Logging
import Model
import NIOPosix
import Operations

/// `waybill-packager dead-letters`: lists, shows and replays changes that could not be applied.
struct DeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead-letters",
        abstract: "Lists, shows and replays changes that could not be applied.",
        discussion: """
            Needs only Kafka, and reads the same configuration as the service. A dead letter is named by its place in \
            the topic, PARTITION/OFFSET.
            """,
        subcommands: [ListDeadLettersCommand.self, ShowDeadLetterCommand.self, ReplayDeadLettersCommand.self])

    /// The settings, the log and the topic that the commands share.
    struct Context {
        let environment: ServiceEnvironment
        let reader: KafkaReader
        let letters: DeadLetterTopic

        /// - Throws: `SettingsError` or `KafkaError` naming what is wrong.
        init(_ values: [String: String] = ProcessInfo.processInfo.environment) throws {
            let common = try CommonSettings(Settings(environment: values))
            self.environment = ServiceEnvironment(command: "waybill-packager", common)
            self.reader = try KafkaReader(self.environment.kafka)
            self.letters = DeadLetterTopic(
                reader: self.reader, topic: common.topics.deadLetters, changes: common.topics.orderChanges)
        }

        var topics: Topics { self.environment.common.topics }

        /// Reads all dead letters and indexes those that match.
        ///
        /// - Throws: `ValidationError` when more match than can be remembered; `KafkaError`.
        func survey(_ filter: DeadLetterFilter) async throws -> DeadLetterIndex {
            let ledger = try await self.letters.survey(filter)
            guard !ledger.isOverfull else {
                throw ValidationError("more than \(DeadLetterIndex.limit) dead letters: use --since, --until or --code")
            }
            return ledger
        }
    }

    /// Writes to standard output. If the reader closes the pipe, SIGPIPE ends the program, as is customary.
    static func say(_ text: String) {
        StandardStream.output.write(text + "\n")
    }
}

/// The options that select dead letters.
struct DeadLetterChoice: ParsableArguments {
    @Option(help: "Only dead letters with this code, such as invalid-order.")
    var code: String?

    @Option(help: "Only dead letters of this order: <orderTypeIdentifier>/<orderIdentifier>.")
    var order: String?

    @Option(help: "Only dead letters of this order type identifier.")
    var type: String?

    @Option(help: "Only dead letters from this time on: 2025-03-05T16:02:11Z, or an age: 30m, 6h, 2d.")
    var since: String?

    @Option(help: "Only dead letters before this time.")
    var until: String?

    func filter(nowMilliseconds: Int64) throws -> DeadLetterFilter {
        var filter = DeadLetterFilter(code: self.code, order: self.order, type: self.type)
        filter.since = try Self.moment("--since", self.since, nowMilliseconds)
        filter.until = try Self.moment("--until", self.until, nowMilliseconds)
        return filter
    }

    func validate() throws { _ = try self.filter(nowMilliseconds: 0) }

    private static func moment(_ name: String, _ text: String?, _ now: Int64) throws -> Int64? {
        guard let text else { return nil }
        guard let moment = RFC3339.moment(text, nowMilliseconds: now) else {
            throw ValidationError("\(name) \(text): \(RFC3339.momentForms)")
        }
        return moment
    }
}

/// Returns the present time in milliseconds since 1970.
func nowMilliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
