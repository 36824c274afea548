import ArgumentParser
import FoundationEssentials
import Glibc
import Kafka
import Logging
import Model
import Operations
import Redis
import Sandbox
import Store

/// `waybill-packager dead-letters replay`
struct ReplayDeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Republishes changes from dead letters after their cause is fixed.",
        discussion: """
            Changes are republished unchanged, with the header waybill-replay, in the original sequence for each \
            order. Each dead letter is replayed once; a marker record prevents a second time. The packager handles \
            them as new changes: it skips one whose source and id were applied, or whose sequence is below the last of \
            its source. A change that still fails becomes a new dead letter. Notifications that the pusher dropped \
            cannot be replayed: the device's next notification covers them, and waybill-pusher notify sends one now. A \
            dead letter is left out if its order was removed after the change, or if neither the topic of changes nor \
            waybill.orders shows whether it was. Records of sources (codes map-…) are mapped again by the programs \
            of WAYBILL_SOURCES, and the changes are published; no source's topic is written. The \
            command can be stopped and run again at any time.

            Exit codes: 0: done; 2: done, except for dead letters that cannot be replayed (their values were too large \
            to keep, they were deleted, they are notifications, or their orders were removed); 3: stopped early (run \
            it again); 1 or 64: it could not start.
            """)

    @OptionGroup var choice: DeadLetterChoice

    @Option(help: "Only this dead letter, PARTITION/OFFSET.", transform: DeadLetterPosition.init(argument:))
    var at: DeadLetterPosition?

    @Option(help: "Maximum number of dead letters per second, 1 to 100000.")
    var rate = 200

    @Option(help: "Only the first of them, 1 or more: see what becomes of these before the others.")
    var first: Int?

    @Option(
        help: """
            Stop when more than this percentage of the replayed changes, 0 to 99, are dead letters again. The run then \
            waits for the last of them for 5 s.
            """)
    var stopAbove: Int?

    @Flag(help: "Print what would be done; write nothing.")
    var dryRun = false

    @Flag(help: "Do not ask on a terminal.")
    var yes = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
        if let first, first < 1 { throw ValidationError("--first \(first): must be 1 or more") }
        if let stopAbove, !(0...99).contains(stopAbove) {
            throw ValidationError("--stop-above \(stopAbove): must be from 0 to 99")
        }
    }

    func run() async throws {
        var filter = try self.choice.filter(nowMilliseconds: nowMilliseconds())
        let context = try DeadLettersCommand.Context()
        filter.position = self.at
        let ledger = try await context.survey(filter)
        let sources = try context.sources()
        var plan = ReplayPlan(ledger, takesSources: sources != nil)
        let removals = try await context.letters.removals(since: plan.entries, of: ledger, topics: context.topics)
        plan.leaveOut(removals)
        if let first { plan.keep(first: first) }
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
        let end = try await self.replay(plan, removals, context, sources)
        let logger = context.environment.logger
        switch end {
        case .done(let tally):
            DeadLettersCommand.say(
                "\(tally.replayed) dead letters replayed; see the packager's log and metrics for the results. "
                    + "Changes with an outdated sequence are skipped")
            if plan.left + tally.refused + tally.gone + tally.removed > 0 { throw ExitCode(2) }
        case .stopped: throw ExitCode(3)
        case .gaveUp(let reason, _):
            logger.error("stopped early; run the command again to continue", metadata: ["error": "\(reason)"])
            throw ExitCode(3)
        }
    }

    /// Makes a producer, runs the replay with it, then closes the producer and the reader.
    private func replay(
        _ plan: ReplayPlan, _ removals: RemovalLedger, _ context: DeadLettersCommand.Context, _ sources: SourceTable?
    ) async throws -> DeadLetterReplay.End {
        let producer = try KafkaProducer(
            context.environment.producing(within: context.environment.common.shutdownLimit / 2),
            topics: [context.topics.orderChanges, context.topics.deadLetters])
        let line = ProgressLine(head: "dead letters: ", to: .error)
        // It connects when a program asks for a parcel.
        let redis = RedisClient(context.environment.redis, eventLoopGroup: context.environment.group)
        let view = ViewEpochCache(MaterializedView(redis: redis))
        // It starts its process when a record of a source is replayed.
        let mapper = Mapper(try .mapperOfCommand(), count: 1)
        let maps = SourceMapper(
            mapper: mapper, topic: context.topics.orderChanges, parcels: OrderStore(redis: redis, view: view).parcels)
        let messages: @Sendable (DeadLetterRecord) async -> Result<[KafkaMessage], ChangeFault> = {
            [topics = context.topics] letter in
            guard let record = letter.sourceRecord else { return .success([letter.replay(topics)]) }
            return await maps.replay(record, sources, schemas: mapper)
        }
        let run = DeadLetterReplay(
            plan, removals, letters: context.letters, producer: producer, topics: context.topics, rate: self.rate,
            stopAbove: self.stopAbove, messages: messages, logger: context.environment.logger
        ) { line.show($0, isLast: $1) }
        let close = {
            await mapper.close()
            await producer.close()
            await context.reader.close()
            await redis.close()
        }
        try await withCleanup(close) { try await context.environment.run(run) }
        return run.end ?? .gaveUp("it was cancelled", .init())
    }

    static func text(of plan: ReplayPlan, _ ledger: DeadLetterIndex) -> String {
        var lines = [DeadLetterFormatter.summary(ledger), "\(plan.entries.count) to replay"]
        if plan.later > 0 { lines.append("\(plan.later) left for another run") }
        if plan.replayed > 0 { lines.append("\(plan.replayed) skipped: already replayed") }
        if plan.omitted > 0 {
            lines.append("\(plan.omitted) cannot be replayed: their values were too large to keep")
        }
        if plan.pushes > 0 {
            let advice = DeadLetterFormatter.pushAdvice
            lines.append("\(plan.pushes) cannot be replayed: they are notifications, not changes; \(advice)")
        }
        if plan.sources > 0 {
            lines.append("\(plan.sources) left out: they are records of sources; set WAYBILL_SOURCES to map them again")
        }
        if plan.removed > 0 { lines.append("\(plan.removed) left out: their orders were removed") }
        if plan.unknown > 0 {
            lines.append(
                "\(plan.unknown) left out: it is unknown whether their orders were removed. The topic no longer has "
                    + "the later changes, or they came from another topic, and the orders are not in waybill.orders; "
                    + "publish them again if needed"
            )
        }
        return lines.joined(separator: "\n")
    }

    /// Asks for confirmation on a terminal; a script is not asked.
    private static func isConfirmed(_ plan: ReplayPlan, _ topics: Topics) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { return true }
        let question = "Republish \(plan.entries.count) changes to \(topics.orderChanges)? [y/N] "
        StandardStream.error.write(question)
        // Nothing else runs yet, so waiting for a person blocks nothing.
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}

/// The sequence in which dead letters are replayed: that of their topic, but within one order that of its changes.
///
/// A dead letter may come after that of a later change of its order, if the later batch was sent first. They are
/// swapped.
struct ReplayPlan: Sendable {
    /// Dead letters to replay, in sequence.
    private(set) var entries: [DeadLetterIndex.Entry]
    /// Dead letters that were replayed before.
    let replayed: Int
    /// Dead letters without their values.
    let omitted: Int
    /// Notifications, which are not changes.
    let pushes: Int
    /// Records of sources, without the programs that map them.
    let sources: Int
    /// Dead letters whose orders were removed since.
    private(set) var removed = 0
    /// Dead letters for which it is unknown whether their orders were removed since.
    private(set) var unknown = 0
    /// Dead letters that a later run replays.
    private(set) var later = 0

    /// - Parameter takesSources: true if records of sources can be mapped again.
    init(_ ledger: DeadLetterIndex, takesSources: Bool = false) {
        let open = ledger.entries.filter { !ledger.isReplayed($0) }
        let letters = open.filter { !$0.isPush }
        let changes = letters.filter { takesSources || !$0.isOfSource }
        self.sources = letters.count - changes.count
        let candidates = changes.filter { !$0.isOmitted }.sorted { $0.position < $1.position }
        self.replayed = ledger.entries.count - open.count
        self.pushes = open.count - letters.count
        self.omitted = changes.count - candidates.count
        self.entries = Self.ordered(candidates)
    }

    /// Leaves out dead letters that would, or might, bring back a removed order.
    mutating func leaveOut(_ removals: RemovalLedger) {
        let verdicts = self.entries.map(removals.verdict)
        self.removed = verdicts.count { $0 == .removed }
        self.unknown = verdicts.count { $0 == .unknown }
        self.entries = zip(self.entries, verdicts).filter { $0.1 == .stands }.map(\.0)
    }

    /// Keeps the first `count` dead letters for this run.
    mutating func keep(first count: Int) {
        self.later = max(0, self.entries.count - count)
        self.entries.removeLast(self.later)
    }

    /// The number of dead letters that were not replayed before and will not be now.
    var left: Int { self.omitted + self.pushes + self.sources + self.removed + self.unknown }

    /// Keeps the places that an order's dead letters occupy, and sorts the dead letters within them by origin.
    static func ordered(_ entries: [DeadLetterIndex.Entry]) -> [DeadLetterIndex.Entry] {
        let places = entries.indices.sorted { (entries[$0].order, $0) < (entries[$1].order, $1) }
        let letters = entries.indices.sorted { left, right in
            let (one, other) = (entries[left], entries[right])
            if one.order != other.order { return one.order < other.order }
            // Dead letters without an origin come first, in their present sequence.
            switch (one.source, other.source) {
            case (let one?, let other?) where one != other: return one < other
            case (nil, .some): return true
            case (.some, nil): return false
            default: return left < right
            }
        }
        var ordered = entries
        // Both are permutations of the same indices, with the orders in the same sequence.
        for (place, letter) in zip(places, letters) { ordered[place] = entries[letter] }
        return ordered
    }
}
