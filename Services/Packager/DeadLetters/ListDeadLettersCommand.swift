import ArgumentParser
import Kafka
import Model

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

    @Flag(help: "Print one JSON object per line; the counts come last.")
    var json = false

    func validate() throws {
        guard (0...100_000).contains(self.limit) else {
            throw ValidationError("--limit \(self.limit): must be from 0 to 100000")
        }
    }

    func run() async throws {
        let filter = try self.choice.filter(nowMilliseconds: nowMilliseconds())
        let context = try DeadLettersCommand.Context()
        let ledger = try await context.survey(filter)
        let entries = ledger.newest(self.limit)
        if !self.json, !entries.isEmpty { DeadLettersCommand.say(DeadLetterFormatter.head) }
        for first in stride(from: 0, to: entries.count, by: Self.page) {
            let page = entries[first..<min(first + Self.page, entries.count)]
            let lines = try await context.letters.letters(at: page.map(\.position), DeadLetterFormatter.Line.init)
            let texts = page.compactMap { entry -> String? in
                // It may have been deleted since it was counted.
                guard let line = lines[entry.position] else { return nil }
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
