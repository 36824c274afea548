import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Which counts are published when.
@Suite struct AdoptionDaysTests {
    private static let brand = Result { try OrderTypeIdentifier("order.com.example.shop") }
    /// 2025-03-05T16:02:11Z
    private static let now: Int64 = 1_741_190_531

    @Test func countsOfDaysThatAreOverAreDeletedAfterTheirLastPublication() throws {
        let brand = try Self.brand.get()
        var standing = AdoptionTotals.Standing()
        standing.part = "p"
        let days = ["2025-03-03", "2025-03-04", "2025-03-05"]
        for (index, day) in days.enumerated() { standing.numbers[.count(.added, brand, day: day)] = Int64(index + 1) }
        standing.numbers[.level(.orders, brand)] = 7
        standing.numbers[.level(.devices, brand)] = -2
        let uncounted = AdoptionDays(standing, nowEpochSeconds: Self.now)
        #expect(uncounted.over == [.count(.added, brand, day: "2025-03-03")])
        func key(_ day: String) -> AdoptionKey { AdoptionKey(brand: brand, day: day, part: "p") }
        #expect(
            uncounted.records == [
                key("2025-03-03"): AdoptionRecord(counts: [.added: 1]),
                key("2025-03-04"): AdoptionRecord(counts: [.added: 2]),
                key("2025-03-05"): AdoptionRecord(counts: [.added: 3]),
            ])
        standing.isCounted = true
        let counted = AdoptionDays(standing, nowEpochSeconds: Self.now).records
        #expect(counted[key("2025-03-05")] == AdoptionRecord(counts: [.added: 3], orders: 7, devices: 0))
        #expect(counted[key("2025-03-04")] == AdoptionRecord(counts: [.added: 2]))
        #expect(AdoptionDays(AdoptionTotals.Standing(), nowEpochSeconds: Self.now).records.isEmpty)
    }

    @Test func aReportAddsUpThePartsOfADay() throws {
        let brand = try Self.brand.get()
        var report = AdoptionReport(brand: brand, since: "2025-03-04")
        func take(_ key: String, _ record: AdoptionRecord, at time: Int64) {
            report.take(key: Array(key.utf8), value: record.encoded, epochMilliseconds: time)
        }
        take("\(brand)/2025-03-03/a", AdoptionRecord(counts: [.added: 100]), at: 1)
        take("order.com.example.other/2025-03-05/a", AdoptionRecord(counts: [.added: 100]), at: 1)
        take("\(brand)/2025-03-04/a", AdoptionRecord(counts: [.added: 1], orders: 1, devices: 1), at: 2)
        take("\(brand)/2025-03-05/a", AdoptionRecord(counts: [.added: 1, .updated: 2], orders: 5, devices: 4), at: 3)
        take("\(brand)/2025-03-05/a", AdoptionRecord(counts: [.added: 2, .updated: 3], orders: 6, devices: 5), at: 4)
        take("\(brand)/2025-03-05/b", AdoptionRecord(counts: [.added: 10, .prompt: 2]), at: 5)
        report.take(key: Array("x".utf8), value: [1], epochMilliseconds: 6)
        report.take(key: Array("\(brand)/2025-03-05/c".utf8), value: [1], epochMilliseconds: 6)
        #expect(report.unreadable == 2)
        #expect(
            AdoptionReportFormat.csv.text(report) == """
                day,details,fetched,added,removed,updated,prompt,orders,devices
                2025-03-04,0,0,1,0,0,0,1,1
                2025-03-05,0,0,12,0,3,2,6,5

                """)
        let lines = AdoptionReportFormat.table.text(report).split(separator: "\n").map(String.init)
        #expect(lines.count == 4)
        #expect(lines[2].hasSuffix("  6        5"))
        #expect(
            lines[3]
                == "0 orders were fetched, 13 came into Wallet, 0 left it; 66.6 % of the updates were fetched within 60 s"
        )
        let objects = try AdoptionReportFormat.json.text(report).split(separator: "\n").map {
            try JSON(parsing: Array($0.utf8)).object
        }
        #expect(objects.map { $0?["added"] } == [1, 12])
        #expect(objects.last??["devices"] == 5)
        let empty = AdoptionReport(brand: brand, since: "2025-03-04")
        #expect(AdoptionReportFormat.table.text(empty).contains("nothing was counted"))
    }
}

/// From Redis through the topic to the command.
@Suite(.server, .timeLimit(.minutes(3))) struct AdoptionReportTests {
    private static let program = Program.built("waybill-packager")
    private static let brand = "order.com.example.shop"

    private func report(_ fixture: PackagerFixture, _ arguments: [String]) async throws -> (code: Int32?, text: String)
    {
        let child = try ChildProcess(
            Self.program, ["report", "--brand", Self.brand] + arguments,
            environment: ["WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_LOG_LEVEL": "error"])
        let exit = try await child.exit(within: .seconds(60))
        guard case .code(let code) = exit else { return (nil, child.output) }
        return (code, child.output)
    }

    /// A lost Redis takes with it what was not published, and nothing of what was.
    @Test func theFiguresOfADaySurviveTheLossOfRedis() async throws {
        try await PackagerFixture.run { fixture in
            try fixture.broker.create(.init("waybill.adoption", partitions: 2))
            let brand = try OrderTypeIdentifier(Self.brand)
            let totals = AdoptionTotals(redis: fixture.redis)
            let environment = ServiceEnvironment(
                common: try CommonSettings(Settings(environment: [:])), group: .singleton, metrics: fixture.metrics,
                readiness: Readiness(conditions: []), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            func publisher() -> AdoptionPublisher {
                AdoptionPublisher(
                    totals, topic: "waybill.adoption", producer: fixture.producer, environment, brands: { [brand] })
            }
            let now = nowMilliseconds() / 1000
            let today = AdoptionKey.day(epochSeconds: now)
            let longAgo = AdoptionTotals.Name.count(.added, brand, day: AdoptionKey.day(epochSeconds: now - 3 * 86_400))
            let first = publisher()
            try await totals.add([.count(.added, brand, day: today): 3, longAgo: 9])
            try await first.publish(nowEpochSeconds: now)
            #expect(try await totals.all().numbers == [.count(.added, brand, day: today): 3])
            try await totals.add([.count(.added, brand, day: today): 1])
            try await first.publish(nowEpochSeconds: now)
            // Not published yet, so it is lost.
            try await totals.add([.count(.added, brand, day: today): 50])
            _ = try await fixture.server.everywhere("FLUSHALL")
            try await totals.add([.count(.added, brand, day: today): 2, .count(.removed, brand, day: today): 1])
            // Another packager has the turn.
            try await publisher().publish(nowEpochSeconds: now)
            let written = try await fixture.broker.records(4, of: "waybill.adoption").count
            #expect(written == 4)
            try await first.publish(nowEpochSeconds: now)
            let shown = try await self.report(fixture, ["--since", "7d", "--csv"])
            #expect(shown.code == 0, "\(shown.text)")
            let day = AdoptionKey.day(epochSeconds: now - 3 * 86_400)
            #expect(shown.text.contains("\(day),0,0,9,0,0,0,,\n\(today),0,0,6,1,0,0,,\n"), "\(shown.text)")
            #expect(try await self.report(fixture, ["--since", "yesterday"]).code == 64)
            #expect(try await self.report(fixture, ["--json", "--csv"]).code == 64)
        }
    }
}
