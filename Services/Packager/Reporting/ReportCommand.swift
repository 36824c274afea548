import ArgumentParser
import Kafka
import Model
import Operations
import Synchronization

/// `waybill-packager report`: how orders of a brand came into Wallet, by day.
struct ReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Shows how orders of a brand came into customers' Wallet, by day.",
        discussion: """
            Reads the topic of adoption, which the services write with WAYBILL_ADOPTION=on, and nothing else: it needs \
            only Kafka, and reads the same configuration as the service. Days are in UTC. The figures, and how far \
            each may be off, are in Shared/Adoption/README.md.

            Exit codes: 0: done; 1: the topic could not be read; 78: the configuration is wrong.
            """)

    @Option(help: "The brand: its orderTypeIdentifier.", transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier

    @Option(help: "The first day: a time such as 2025-03-05T16:02:11Z, or an age: 24h, 30d.")
    var since = "30d"

    @Flag(help: "Print one JSON object for each day, each on its line.")
    var json = false

    @Flag(help: "Print comma-separated values with a heading.")
    var csv = false

    func validate() throws {
        if self.json && self.csv { throw ValidationError("--json and --csv exclude each other") }
        _ = try self.firstDay(nowMilliseconds: 0)
    }

    private func firstDay(nowMilliseconds now: Int64) throws -> String {
        guard let moment = RFC3339.moment(self.since, nowMilliseconds: now) else {
            throw ValidationError("--since \(self.since): \(RFC3339.momentForms)")
        }
        return AdoptionKey.day(epochSeconds: moment / 1000)
    }

    func run() async throws {
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let since = try self.firstDay(nowMilliseconds: nowMilliseconds())
        let reader = try KafkaReader(environment.kafka)
        let report = try await withCleanup(reader.close) {
            try await Self.read(
                AdoptionReport(brand: self.brand, since: since), reader, environment.common.topics.adoption)
        }
        if report.unreadable > 0 {
            StandardStream.error.write("\(report.unreadable) records cannot be read and are left out\n")
        }
        let format: AdoptionReportFormat = self.json ? .json : self.csv ? .csv : .table
        StandardStream.output.write(format.text(report))
    }

    /// Reads all of the topic: one record for each brand and day, but for what is not compacted yet.
    static func read(_ empty: AdoptionReport, _ reader: KafkaReader, _ topic: String) async throws -> AdoptionReport {
        let report = Mutex(empty)
        try await reader.read(try await reader.bounds(of: topic), of: topic) { records in
            report.withLock { report in
                for record in records {
                    report.take(key: record.key, value: record.value, epochMilliseconds: record.timestampMilliseconds)
                }
            }
        }
        return report.withLock { $0 }
    }
}
