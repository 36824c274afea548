import TestKit
import Testing

@testable import Model

@Suite struct RFC3339Tests {
    @Test(arguments: [
        ("1970-01-01T00:00:00Z", 0), ("2025-03-05T16:02:11Z", 1_741_190_531), ("2024-02-29T23:59:59Z", 1_709_251_199),
        ("2025-05-14T00:00:00+09:00", 1_747_148_400), ("1969-12-31T23:59:59Z", -1),
        ("2025-03-05T16:02:11.987Z", 1_741_190_531), ("2025-03-05T16:02:11-05:30", 1_741_210_331),
        ("0000-01-01T00:00:00Z", -62_167_219_200), ("9999-12-31T23:59:59Z", 253_402_300_799),
    ])
    func aDateTimeParsesToItsSecond(_ text: String, _ seconds: Int) { #expect(RFC3339.parse(text) == Int64(seconds)) }

    @Test(arguments: [
        "", "2025", "2025-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2025-13-01T00:00:00Z",
        "2025-00-01T00:00:00Z", "2025-01-00T00:00:00Z", "2025-04-31T00:00:00Z", "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z", "2025-01-01T00:00:60Z", "2025-01-01T00:00:00", "2025-01-01 00:00:00Z",
        "2025-01-01t00:00:00Z", "2025-01-01T00:00:00z", "2025-01-01T00:00:00.Z", "2025-01-01T00:00:00+0900",
        "2025-01-01T00:00:00+24:00", "2025-01-01T00:00:00+09:60", "2025-01-01T00:00:00ZZ", "２025-01-01T00:00:00Z",
        "2025-01-01T00:00:00Z\n", "-025-01-01T00:00:00Z",
    ])
    func anInvalidDateTimeIsRefused(_ text: String) { #expect(RFC3339.parse(text) == nil) }

    @Test func aFormattedDateTimeIsReadBack() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            let seconds = Int64.random(in: RFC3339.earliest...RFC3339.latest, using: &generator)
            #expect(RFC3339.parse(RFC3339.format(epochSeconds: seconds)) == seconds)
        }
        #expect(RFC3339.format(epochSeconds: 1_741_190_531) == "2025-03-05T16:02:11Z")
        #expect(RFC3339.format(epochSeconds: .max) == "9999-12-31T23:59:59Z")
        #expect(RFC3339.format(epochSeconds: .min) == "0000-01-01T00:00:00Z")
    }

    @Test func aFractionIsRoundedUp() throws {
        #expect(try #require(RFC3339.instant("1970-01-01T00:00:00.000000001Z")).roundedUp == 1)
        #expect(try #require(RFC3339.instant("1970-01-01T00:00:00.0Z")).roundedUp == 0)
    }
}
