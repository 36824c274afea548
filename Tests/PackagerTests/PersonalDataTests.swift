import Foundation
import Model
import Store
import TestKit
import Testing

@testable import Packager

/// The places that the code knows are in `privacy.md` and in the report of `forget`, with their ends.
@Suite struct PersonalDataTests {
    private static let now: Int64 = 1_000_000

    private struct Place {
        let name: String
        let end: StoreKeyKind.PersonalData.End
    }

    private static let places = StoreKeyKind.allCases.compactMap { kind in
        kind.personalData.map { Place(name: kind.rawValue, end: $0.end) }
    }

    private static func document() throws -> String {
        try String(contentsOf: Repository.root.appending(path: "compose/operate/privacy.md"), encoding: .utf8)
    }

    /// The rows of the table of places: names, and the end.
    private static func rows(_ document: String) -> [(names: Substring, end: Substring)] {
        document.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: " | ", omittingEmptySubsequences: false)
            guard line.hasPrefix("| "), cells.count == 4 else { return nil }
            return (cells[0], cells[3].dropLast(2))
        }
    }

    /// - Returns: what is wrong, a sentence for each.
    private static func faults(_ places: [Place], _ document: String, _ report: [Remainder]) -> [String] {
        let rows = Self.rows(document)
        var faults: [String] = []
        for place in places {
            let forms = ["`\(place.name)`", "`\(place.name):…`"]
            let ends = rows.filter { row in forms.contains { row.names.contains($0) } }.map(\.end)
            let remainder = report.first { $0.place == "Redis, \(place.name)" }
            if ends.count != 1 { faults.append("privacy.md has \(ends.count) rows of \(place.name)") }
            if ends.contains(where: { $0.isEmpty }) { faults.append("privacy.md does not say how \(place.name) ends") }
            switch place.end {
            case .removal:
                if remainder != nil { faults.append("the report has \(place.name), which a removal ends") }
            case .seconds(let seconds):
                let life = Remainder.life(seconds)
                if !ends.allSatisfy({ $0.contains(life) }) {
                    faults.append("privacy.md does not say that \(place.name) lives for \(life)")
                }
                if remainder?.until != Self.now + seconds { faults.append("the report has no date of \(place.name)") }
            case .event:
                if remainder?.reason.isEmpty != false { faults.append("the report does not have \(place.name)") }
            }
        }
        return faults
    }

    @Test func keysOfRedisAreInTheDocumentAndTheReport() throws {
        #expect(Self.places.count > 15)
        let faults = try Self.faults(Self.places, Self.document(), Remainder.others(nowEpochSeconds: Self.now))
        #expect(faults == [])
    }

    @Test func aPlantedPlaceIsNoticed() throws {
        let report = Remainder.others(nowEpochSeconds: Self.now)
        let document = try Self.document()
        let planted = Place(name: "waybill:1:planted", end: .seconds(60))
        #expect(
            Self.faults([planted], document, report) == [
                "privacy.md has 0 rows of waybill:1:planted", "the report has no date of waybill:1:planted",
            ])
        let gone = Place(name: "waybill:1:gone", end: .seconds(86_400))
        #expect(
            Self.faults([gone], document, report) == [
                "privacy.md does not say that waybill:1:gone lives for 1 day",
                "the report has no date of waybill:1:gone",
            ])
        let event = Place(name: "waybill:1:planted", end: .event("never"))
        #expect(Self.faults([event], document, report).count == 2)
    }

    @Test func topicsAreInTheDocumentAndTheReport() throws {
        let rows = Self.rows(try Self.document())
        let topics = Topics()
        let report = Remainder.topics(topics, sources: ["shop"])
        #expect(report.contains { $0.name == "shop" })
        // That one has counts alone.
        for kind in Topics.Kind.allCases where kind != .adoption {
            let names = rows.filter { $0.names.contains("`\(topics[kind])`") && !$0.end.isEmpty }
            #expect(names.count == 1, "privacy.md has no row of \(topics[kind])")
            #expect(report.contains { $0.name == topics[kind] && !$0.what.isEmpty })
        }
    }

    @Test func aLifeIsInItsGreatestUnit() {
        let lives = [60, 900, 3600, 86_400, 604_800].map { Remainder.life($0) }
        #expect(lives == ["1 minute", "15 minutes", "1 hour", "1 day", "7 days"])
    }
}
