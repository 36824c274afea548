import Operations
import TestKit
import Testing

@testable import Adoption

@Suite struct AdoptionMetricRowTests {
    @Test func theDocumentRepeatsTheTable() throws {
        #expect(
            try Repository.lines(MetricRow.adoption.map(\.markdown), missingIn: "Shared/Adoption/README.md") == [])
    }
}
