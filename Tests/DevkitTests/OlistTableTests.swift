import Model
import Testing

@testable import Devkit

@Suite struct OlistTableTests {
    static let header = OlistTable.columns.joined(separator: ",")
    static let row = "o1,c1,delivered,9/4/2016 21:15,10/7/2016 13:18,10/14/2016 3:05,12/1/2016 0:00,10/20/2016 0:00"

    @Test func aRowBecomesAnOrder() throws {
        let order = try #require(try OlistTable.parse("\(Self.header)\n\(Self.row)\n").first)
        #expect(order.identifier == "o1")
        #expect(order.customer == "c1")
        #expect(order.status == .delivered)
        let times = [order.purchased, order.approved, order.handedOver, order.delivered, order.estimated]
        #expect(
            times.map { $0.map { RFC3339.format(epochSeconds: $0) } } == [
                "2016-09-04T21:15:00Z", "2016-10-07T13:18:00Z", "2016-10-14T03:05:00Z", "2016-12-01T00:00:00Z",
                "2016-10-20T00:00:00Z",
            ])
    }

    @Test func emptyCellsAreMissingTimes() throws {
        let order = try #require(try OlistTable.parse("\(Self.header)\no,c,canceled,1/2/2017 3:04,,,,").first)
        #expect(order.approved == nil)
        #expect(order.handedOver == nil)
        #expect(order.delivered == nil)
        #expect(order.estimated == nil)
    }

    @Test func anyFieldMayBeQuoted() throws {
        let quoted = { (line: String) in line.split(separator: ",").map { "\"\($0)\"" }.joined(separator: ",") }
        let text = "\(quoted(Self.header))\r\n\(quoted(Self.row))\r\n"
        #expect(try OlistTable.parse(text) == OlistTable.parse("\(Self.header)\n\(Self.row)"))
    }

    @Test(arguments: [
        ("", [""]), (",", ["", ""]), ("a,b", ["a", "b"]), ("\"a,b\",c", ["a,b", "c"]), ("\"\",\"\"", ["", ""]),
        ("\"say \"\"yes\"\"\",x", ["say \"yes\"", "x"]), ("\"\"\"\"", ["\""]), ("a,\"b\"", ["a", "b"]),
    ])
    func aLineIsCutAtTheCommasOutsideOfQuotes(_ line: String, _ fields: [String]) {
        #expect(OlistTable.fields(line[...]) == fields)
    }

    @Test(arguments: [
        ("o,c,delivered,1/2/2017 3:04", "4 fields"), ("o,c,delivered,1/2/2017 3:04,,,,,", "9 fields"),
        ("o,c,lost,1/2/2017 3:04,,,,", "unknown status lost"), ("o,c,shipped,,,,,", "without a purchase"),
        ("o,c,shipped,2/30/2017 3:04,,,,", "2/30/2017 3:04"), ("o,c,shipped,1/2/2017,,,,", "\"1/2/2017\""),
        ("o,c,shipped,1/2/2017 3:04,2017-01-02 03:04,,,", "2017-01-02 03:04"),
        ("o,c,shipped,1/2/2017 24:00,,,,", "24:00"), ("o,c,shipped,1/2/17 3:04,,,,", "1/2/17"),
        ("o,c,shipped,1/2/2017 3:04:05,,,,", "3:04:05"), ("o,c,shipped,-1/2/2017 3:04,,,,", "-1/2"),
        ("o,c,shipped,\"1/2/2017 3:04,,,,", "4 fields"), ("o,c,shipped,٣/2/2017 3:04,,,,", "no time"),
    ])
    func aBrokenRowIsNamedByItsLine(_ row: String, _ what: String) {
        let error = #expect(throws: ToolError.self) {
            try OlistTable.parse("\(Self.header)\n\(Self.row)\n\n\(row)\n\(Self.row)")
        }
        #expect(error?.message.contains("line 4:") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains(what) == true, "\(error?.message ?? "")")
    }

    @Test func aDuplicateOrderIsRefusedWithBothLines() {
        let other = Self.row.replacing("o1,", with: "o2,")
        let error = #expect(throws: ToolError.self) {
            try OlistTable.parse("\(Self.header)\n\(Self.row)\n\n\(other)\n\(Self.row)\n")
        }
        #expect(error?.message.contains("line 5: order o1 is already in line 2") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: ["", "\n", "order_id,customer_id", row, header.uppercased(), header + ",more"])
    func aTableWithoutTheExpectedHeaderIsRefused(_ text: String) {
        let error = #expect(throws: ToolError.self) { try OlistTable.parse(text) }
        #expect(error?.message.contains("order_id,customer_id") == true)
    }

    @Test func aGeneratedTableIsTheSameForASeedAndHasAllStatuses() {
        let orders = OlistTable.generate(3000, seed: 7)
        #expect(orders == OlistTable.generate(3000, seed: 7))
        #expect(orders != OlistTable.generate(3000, seed: 8))
        #expect(Set(orders.map(\.identifier)).count == 3000)
        #expect(orders.allSatisfy { $0.identifier.count == 32 && $0.customer.count == 32 })
        #expect(Set(orders.map(\.status)) == Set(OlistOrder.Status.allCases))
        #expect(orders.allSatisfy { ($0.delivered != nil) == ($0.status == .delivered) })
    }
}
