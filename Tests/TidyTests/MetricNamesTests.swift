import Foundation
import Testing

/// The metrics that alerts, dashboards and documents name, against those that the services have.
@Suite struct MetricNamesTests {
    /// Returns every quoted metric name in the services and rooms.
    private static func known(in isWanted: (String) -> Bool = { _ in true }) throws -> Set<String> {
        Set(
            try TidyTests.sources(["Services", "Shared"]).filter { isWanted($0.path) }.flatMap { file in
                file.lines.filter { $0.contains("\"waybill_") }.flatMap { line in
                    line.matches(of: /"(waybill_[a-z0-9_]+)"/).map { String($0.output.1) }
                }
            })
    }

    /// Returns the files that name metrics.
    private static func readers() throws -> [String] {
        let files = ["alerts", "dashboards"].flatMap { folder in
            let path = TidyTests.root.appending(path: "compose/operate/\(folder)").path()
            return ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).map {
                "compose/operate/\(folder)/\($0)"
            }
        }
        return try files.sorted() + DocumentTests.documents()
    }

    private static func names(in text: String) -> Set<String> {
        Set(text.matches(of: /waybill_[a-z0-9_]+/).map { String($0.output) })
    }

    /// Returns the metrics that a text names and no service has.
    private static func unknownNames(in text: String, known: Set<String>) -> Set<String> {
        Self.names(in: text).filter { name in
            // A histogram has three series. Source: Prometheus text exposition format 0.0.4
            let base = name.replacing(/_(?:bucket|sum|count)$/, with: "")
            return !known.contains(name) && !known.contains(base)
        }
    }

    @Test func everyReferencedMetricExists() throws {
        let known = try Self.known()
        #expect(known.count > 50)
        let readers = try Self.readers()
        #expect(readers.contains("compose/operate/alerts/pusher.yaml"))
        #expect(readers.contains("compose/operate/dashboards/pusher.json"))
        for path in readers {
            #expect(Self.unknownNames(in: try DocumentTests.text(path), known: known).isEmpty, "\(path)")
        }
    }

    @Test func everyMetricIsInATable() throws {
        let tables = try Self.known { $0.contains("MetricRow") }
        let others = try Self.known { !$0.contains("MetricRow") }
        #expect(others.subtracting(tables).sorted() == [], "add a row to MetricRow+….swift of its service")
        #expect(tables.subtracting(others).sorted() == [], "no code makes it")
    }

    @Test func everyMetricIsDocumented() throws {
        let documented = try DocumentTests.documents().reduce(into: Set<String>()) {
            $0.formUnion(Self.names(in: try DocumentTests.text($1)))
        }
        let missing = try Self.known().subtracting(documented).sorted()
        #expect(missing.isEmpty, "add them to the table of metrics in the README.md of their service")
    }

    @Test func aMisspelledMetricIsDetected() {
        let text = "rate(waybill_pushes_total[5m]) / waybill_age_seconds_bucket + waybill_push_total"
        #expect(
            Self.unknownNames(in: text, known: ["waybill_pushes_total", "waybill_age_seconds"]) == [
                "waybill_push_total"
            ])
    }
}
