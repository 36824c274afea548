import ArgumentParser
import Brands
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations

/// `waybill-packager import`: orders that were there before Waybill.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Publishes orders or changes from a file, after all of its lines were judged.",
        discussion: """
            Each line is a JSON object: an event as on waybill.order-changes, or a document in the form of order.json \
            with orderIdentifier, and orderTypeIdentifier unless --order-type names it. A document becomes a change \
            waybill.order.merged of the source /import at the time --as-of, so what other sources wrote later stays. \
            No device is notified, unless --notify is given.

            All lines are judged before the first is published, by the brands of the packager's configuration. Refused \
            lines are printed with their numbers and reasons, and then nothing is published; --skip-refused publishes \
            the others. The command may be stopped and run again at any time: FILE.imported says how far it came. Of - \
            and other streams, which are copied to TMPDIR first, everything is published again, and the packager skips \
            what it has.

            Exit codes: 0: done; 2: lines were refused; 3: stopped early (run it again); 1 or 64: it could not start.
            """)

    /// The most bytes of standard input.
    static let copyLimit = 32 << 30

    @Argument(help: "A file with a JSON object in each line, or - for standard input.")
    var file: String

    @Option(
        help: "Order type identifier of documents that name none.", transform: { try OrderTypeIdentifier($0) })
    var orderType: OrderTypeIdentifier?

    @Option(help: "The time of the documents, like 2026-01-10T10:00:00Z (default: when the file was written).")
    var asOf: String?

    @Option(help: "The source of the documents' changes.")
    var source = "/import"

    @Option(help: "Maximum number of changes per second, 1 to 100000.")
    var rate = 500

    @Flag(help: "Notify devices.")
    var notify = false

    @Flag(help: "Publish the other lines of a file that has refused ones.")
    var skipRefused = false

    @Flag(help: "Judge all lines; publish nothing.")
    var dryRun = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
        if let asOf, RFC3339.parse(asOf) == nil {
            throw ValidationError("--as-of \(asOf): must be a date-time like 2026-01-10T10:00:00Z")
        }
    }

    func run() async throws {
        let (settings, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let own = try RefusedConfiguration.ending { try PackagerSettings(settings, common: environment.common) }
        let options = ImportRun.Options(
            path: self.file == "-" ? "/dev/stdin" : self.file,
            defaults: ImportedLine.Defaults(
                orderType: self.orderType, source: self.source, time: self.asOf ?? "", isSilent: !self.notify),
            rate: self.rate, isDryRun: self.dryRun, skipsRefused: self.skipRefused)
        let folds = OrderPackagers(own.brands.brands, tokens: own.tokens).current.mapValues(\.fold)
        let topic = environment.common.topics.orderChanges
        let producer =
            self.dryRun
            ? nil
            : try KafkaProducer(
                environment.producing(within: environment.common.shutdownLimit / 2), topics: [topic])
        let line = ProgressLine(head: "import: ", to: .error)
        let refuse = { @Sendable (refusal: ImportRun.Refusal) in
            _ = StandardStream.output.write("line \(refusal.line): \(refusal.fault)\n")
        }
        let run = ImportRun(
            options, folds: folds, topic: topic, producer: producer, now: { Int64(Date().timeIntervalSince1970) },
            report: { line.show($0, isLast: $1) }, refuse: refuse)
        do {
            let close: () async -> Void = { await producer?.close() }
            try await withCleanup(close) { try await environment.run(run) }
        } catch let failure as FileContent.Failure {
            throw ValidationError("\(self.file): \(failure)")
        }
        let result = run.result
        switch result.end {
        case nil, .done?: if result.tally.refused > 0 { throw ExitCode(2) }
        case .stopped?: throw ExitCode(3)
        case .gaveUp(let reason)?:
            environment.logger.error(
                "stopped early; run the command again to continue", metadata: ["error": "\(reason)"])
            throw ExitCode(3)
        }
    }
}
