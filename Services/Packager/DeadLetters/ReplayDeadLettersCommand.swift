import ArgumentParser
import Foundation
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import UnixSignals

/// `waybill-packager dead-letters replay`
struct ReplayDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Puts letters back on the topic of changes, after what made them fail was mended.",
        discussion: """
            Changes go back as they came, with the header waybill-replay, in the order in which they stood for each \
            order. Each letter is put back once: a note beside it tells the next run. The packager takes them as new \
            changes, with its usual rules: one whose source and id were applied meanwhile does nothing, and so does \
            one with a sequence below the last that was applied of its source. What still cannot be applied becomes a \
            new letter. Notifications that the pusher gave up are no changes and cannot be put back: the next change \
            of any of the device's orders tells it of all that it missed. A letter whose order was removed after its \
            change is left out, and so is one that is older than all that the topic of changes still has and whose \
            order is not known. May be stopped or killed at any time and run again.

            Exit codes: 0 all done, 2 all done but some letters cannot be put back (their values were too large to be \
            kept, they were deleted, they are notifications, or their orders were removed since), 3 stopped or given \
            up before the end (run it again), 1 it cannot start.
            """)

    @OptionGroup var choice: DeadLetterChoice

    @Option(help: "Only this letter, PARTITION/OFFSET.", transform: DeadLetterPosition.init(argument:))
    var at: DeadLetterPosition?

    @Option(help: "Most letters a second, 1 to 100000.")
    var rate = 200

    @Flag(help: "Say what would be done and write nothing.")
    var dryRun = false

    @Flag(help: "Do not ask on a terminal.")
    var yes = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        var filter = try self.choice.filter(nowMilliseconds: nowMilliseconds())
        let context = try DeadLettersCommand.Context()
        filter.position = self.at
        let ledger = try await context.survey(filter)
        var plan = ReplayPlan(ledger)
        let removals = try await context.letters.removals(since: plan.entries, of: ledger, topics: context.topics)
        plan.leaveOut(removals)
        DeadLettersCommand.say(Self.text(of: plan, ledger))
        if self.dryRun || plan.entries.isEmpty {
            await context.reader.close()
            if plan.left > 0 { throw ExitCode(2) }
            return
        }
        guard self.yes || Self.isConfirmed(plan, context.topics) else {
            await context.reader.close()
            throw ExitCode(3)
        }
        let end = try await self.replay(plan, removals, context)
        let logger = context.environment.logger
        switch end {
        case .done(let tally):
            DeadLettersCommand.say(
                "\(tally.replayed) letters put back; what their changes did, the packager's log and metrics tell: "
                    + "changes that their sources have overtaken are skipped by sequence")
            if plan.left + tally.refused + tally.gone + tally.removed > 0 { throw ExitCode(2) }
        case .stopped: throw ExitCode(3)
        case .gaveUp(let reason, _):
            logger.error("stopped early; run the command again to continue", metadata: ["error": "\(reason)"])
            throw ExitCode(3)
        }
    }

    /// Makes a run with its producer, lets it end, and closes both.
    private func replay(
        _ plan: ReplayPlan, _ removals: RemovalLedger, _ context: DeadLettersCommand.Context
    ) async throws -> DeadLetterReplay.End {
        let limit = context.environment.common.shutdownLimit
        let producer = try KafkaProducer(
            context.environment.producing(within: limit / 2),
            topics: [context.topics.orderChanges, context.topics.deadLetters])
        let line = ProgressLine(head: "dead letters: ", file: .standardError)
        let run = DeadLetterReplay(
            plan, removals, letters: context.letters, producer: producer, topics: context.topics, rate: self.rate,
            logger: context.environment.logger
        ) { line.show($0, isLast: $1) }
        var configuration = ServiceGroupConfiguration(
            services: [.init(service: run, successTerminationBehavior: .gracefullyShutdownGroup)],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: context.environment.logger)
        configuration.maximumGracefulShutdownDuration = limit
        let result: Result<Void, any Error>
        do { result = .success(try await ServiceGroup(configuration: configuration).run()) } catch {
            result = .failure(error)
        }
        await producer.close()
        await context.reader.close()
        try result.get()
        return run.end ?? .gaveUp("it was cancelled", .init())
    }

    static func text(of plan: ReplayPlan, _ ledger: DeadLetterIndex) -> String {
        var lines = [DeadLetterFormatter.summary(ledger), "\(plan.entries.count) to put back"]
        if plan.replayed > 0 { lines.append("\(plan.replayed) passed over, they were put back before") }
        if plan.omitted > 0 {
            lines.append("\(plan.omitted) cannot be put back, as their values were too large to be kept")
        }
        if plan.pushes > 0 {
            let advice = DeadLetterFormatter.pushAdvice
            lines.append("\(plan.pushes) cannot be put back, as they are notifications and no changes: \(advice)")
        }
        if plan.removed > 0 { lines.append("\(plan.removed) are left out, as their orders were removed since") }
        if plan.unknown > 0 {
            lines.append(
                "\(plan.unknown) are left out, as nobody can tell whether their orders were removed since: the changes "
                    + "behind them are not kept any more, or stood on another topic than the first, and the orders do "
                    + "not stand; publish them again if they shall"
            )
        }
        return lines.joined(separator: "\n")
    }

    /// Asks on a terminal; a script is not asked.
    private static func isConfirmed(_ plan: ReplayPlan, _ topics: Topics) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { return true }
        let question = "Put \(plan.entries.count) letters back on \(topics.orderChanges)? [y/N] "
        try? FileHandle.standardError.write(contentsOf: Data(question.utf8))
        // Nothing else is at work yet, so the wait for a person keeps nobody.
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}
