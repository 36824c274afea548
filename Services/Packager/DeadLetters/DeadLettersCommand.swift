import ArgumentParser
import FoundationEssentials
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Sandbox

/// `waybill-packager dead-letters`: lists, replays, copies and closes changes that could not be applied.
struct DeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead-letters",
        abstract: "Lists, shows, replays, copies and closes changes that could not be applied.",
        discussion: """
            Needs only Kafka, unless records of sources ask for parcels, and reads the same configuration as the \
            service. A dead letter is named by its place in the topic, PARTITION/OFFSET.
            """,
        subcommands: [
            ListDeadLettersCommand.self, ShowDeadLetterCommand.self, ReplayDeadLettersCommand.self,
            ExportDeadLettersCommand.self, ImportDeadLettersCommand.self, PurgeDeadLettersCommand.self,
        ])

    /// The settings, the log and the topic that the commands share.
    struct Context {
        let environment: ServiceEnvironment
        let reader: KafkaReader
        let letters: DeadLetterTopic
        private let sourcesPath: String?

        /// - Throws: `SettingsError` or `KafkaError` naming what is wrong.
        init(_ values: [String: String] = ProcessInfo.processInfo.environment) throws {
            let settings = try Settings(environment: values)
            let common = try CommonSettings(settings)
            self.sourcesPath = settings.text(.sources)
            self.environment = ServiceEnvironment(command: "waybill-packager", common)
            self.reader = try KafkaReader(self.environment.kafka)
            self.letters = DeadLetterTopic(
                reader: self.reader, topic: common.topics.deadLetters, changes: common.topics.orderChanges)
        }

        var topics: Topics { self.environment.common.topics }

        /// The sources, with which their records are mapped again; nil if none are configured.
        ///
        /// - Throws: `SourceError` if one of them cannot be loaded.
        func sources() throws -> SourceTable? {
            try self.sourcesPath.map {
                try SourceLibrary(
                    directory: $0, topics: self.topics, isStrict: true, in: Sandbox.mapperOfCommand()
                ).table
            }
        }

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

    /// Writes to standard output. A reader that went away is no reason to stop.
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

    @Option(name: [.long, .customLong("before")], help: "Only dead letters before this time.")
    var until: String?

    func filter(nowMilliseconds: Int64) throws -> DeadLetterFilter {
        var filter = DeadLetterFilter(code: self.code, orders: self.order.map { [$0] }, type: self.type)
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

/// `waybill-packager dead-letters list`
struct ListDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists dead letters, newest last, and counts them by code.",
        discussion: """
            A dead letter that was sent twice, because a packager was killed, is shown once with 2×. The counts cover \
            all that match, whatever --limit says.
            """)

    /// Dead letters that are read again together for their lines.
    private static let page = 1000

    @OptionGroup var choice: DeadLetterChoice

    @Option(help: "Show at most this many of the newest, 0 to 100000.")
    var limit = 100

    @Option(help: "Count by these parts instead, separated by commas, the largest first: code, reason, brand.")
    var groupBy: String?

    @Flag(help: "Print one JSON object per line; the counts come last.")
    var json = false

    func validate() throws {
        if let groupBy, DeadLetterGroups(groupBy) == nil {
            throw ValidationError("--group-by \(groupBy): must be some of code, reason, brand, each once")
        }
        guard (0...100_000).contains(self.limit) else {
            throw ValidationError("--limit \(self.limit): must be from 0 to 100000")
        }
    }

    func run() async throws {
        let filter = try self.choice.filter(nowMilliseconds: nowMilliseconds())
        let context = try DeadLettersCommand.Context()
        let ledger = try await context.survey(filter)
        if let groups = self.groupBy.flatMap(DeadLetterGroups.init) {
            try await self.count(groups, ledger.newest(.max), context)
            await context.reader.close()
            return
        }
        let entries = ledger.newest(self.limit)
        if !self.json, !entries.isEmpty { DeadLettersCommand.say(DeadLetterFormatter.head) }
        try await context.letters.pages(of: entries, Self.page, DeadLetterFormatter.Line.init) { page in
            let texts = page.map { entry, line in
                let isReplayed = ledger.isReplayed(entry)
                return self.json
                    ? DeadLetterFormatter.json(line, copies: entry.copies, isReplayed: isReplayed).text
                    : DeadLetterFormatter.row(line, copies: entry.copies, isReplayed: isReplayed)
            }
            if !texts.isEmpty { DeadLettersCommand.say(texts.joined(separator: "\n")) }
        }
        DeadLettersCommand.say(
            self.json ? DeadLetterFormatter.summaryJSON(ledger).text : DeadLetterFormatter.summary(ledger))
        await context.reader.close()
    }
}

extension ListDeadLettersCommand {
    /// Prints the counts of groups.
    private func count(
        _ empty: DeadLetterGroups, _ entries: [DeadLetterIndex.Entry], _ context: DeadLettersCommand.Context
    ) async throws {
        var groups = empty
        try await context.letters.pages(of: entries, Self.page, DeadLetterFormatter.Line.init) { page in
            for (_, line) in page { groups.add(line) }
        }
        let lines = self.json ? groups.json.map(\.text) : entries.isEmpty ? [] : [groups.text]
        if !lines.isEmpty { DeadLettersCommand.say(lines.joined(separator: "\n")) }
    }
}

/// `waybill-packager dead-letters show PARTITION/OFFSET`
struct ShowDeadLetterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows all of one dead letter: headers, reason, value, and what a replay would do.")

    @Argument(
        help: "The dead letter, PARTITION/OFFSET as list shows it.", transform: DeadLetterPosition.init(argument:))
    var letter: DeadLetterPosition

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() async throws {
        let context = try DeadLettersCommand.Context()
        let position = self.letter
        // Reads the whole partition: duplicates and the marker of a replay may be anywhere in it.
        let ledger = try await context.survey(DeadLetterFilter(position: position))
        guard let letter = try await context.letters.letters(at: [position], { $0 })[position] else {
            throw ValidationError("\(position): there is no dead letter at this place")
        }
        let identity = letter.identity
        let entry = ledger.entries.first { $0.identity == identity }
        let (copies, isReplayed) = (entry?.copies ?? 1, entry.map(ledger.isReplayed) ?? false)
        let purge = entry.flatMap(ledger.purge)
        DeadLettersCommand.say(
            self.json
                ? DeadLetterFormatter.wholeJSON(
                    letter, copies: copies, isReplayed: isReplayed, purge: purge, topics: context.topics
                ).text
                : DeadLetterFormatter.whole(
                    letter, copies: copies, isReplayed: isReplayed, purge: purge, topics: context.topics))
        await context.reader.close()
    }
}

extension DeadLetterPosition {
    /// - Throws: `ValidationError` if the text is not a position.
    init(argument: String) throws {
        guard let position = DeadLetterPosition(argument) else {
            throw ValidationError("\(argument): must be PARTITION/OFFSET, such as 3/17")
        }
        self = position
    }
}
