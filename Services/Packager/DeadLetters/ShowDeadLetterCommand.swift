import ArgumentParser
import Kafka
import Model

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
        DeadLettersCommand.say(
            self.json
                ? DeadLetterFormatter.wholeJSON(letter, copies: copies, isReplayed: isReplayed, topics: context.topics)
                    .text
                : DeadLetterFormatter.whole(letter, copies: copies, isReplayed: isReplayed, topics: context.topics))
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
