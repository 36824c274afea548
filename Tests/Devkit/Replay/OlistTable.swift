import Model
import TestKit

/// One order of the table, times as UNIX seconds; a time is nil if the table has none.
struct OlistOrder: Hashable, Sendable {
    /// The statuses of the table.
    enum Status: String, Sendable, CaseIterable {
        case delivered, shipped, canceled, unavailable, processing, invoiced
    }

    let identifier: String
    let customer: String
    let status: Status
    let purchased: Int64
    let approved: Int64?
    let handedOver: Int64?
    let delivered: Int64?
    let estimated: Int64?
}

/// Reads the table of real orders: eight columns, times as `M/D/YYYY H:MM`, some empty.
enum OlistTable {
    static let columns = [
        "order_id", "customer_id", "order_status", "order_purchase_timestamp", "order_approved_at",
        "order_delivered_carrier_date", "order_delivered_customer_date", "order_estimated_delivery_date",
    ]

    /// - Throws: `ToolError` naming the line and its error; a repeated order is an error too.
    static func parse(_ text: String) throws(ToolError) -> [OlistOrder] {
        var lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)[...]
        guard let header = lines.popFirst(), Self.fields(header) == Self.columns else {
            throw ToolError(.input, "reading the table: the first line must be \(Self.columns.joined(separator: ","))")
        }
        var orders: [OlistOrder] = []
        var places: [String: Int] = [:]
        for (index, line) in lines.enumerated() where !line.isEmpty {
            let order = try Self.order(Self.fields(line), line: index + 2)
            // Two orders with one identifier would be mixed, and their final state could not be predicted.
            if let first = places.updateValue(index + 2, forKey: order.identifier) {
                throw ToolError(
                    .input,
                    "reading the table: line \(index + 2): order \(order.identifier) is already in line \(first); "
                        + "take one of the lines out")
            }
            orders.append(order)
        }
        return orders
    }

    private static func order(_ fields: [String], line: Int) throws(ToolError) -> OlistOrder {
        func fault(_ what: String) -> ToolError { ToolError(.input, "reading the table: line \(line): \(what)") }
        guard fields.count == Self.columns.count else { throw fault("\(fields.count) fields instead of 8") }
        guard let status = OlistOrder.Status(rawValue: fields[2]) else { throw fault("unknown status \(fields[2])") }
        var times: [Int64?] = []
        for field in fields[3...] {
            guard !field.isEmpty else {
                times.append(nil)
                continue
            }
            guard let time = Self.time(field) else { throw fault("\"\(field)\" is no time M/D/YYYY H:MM") }
            times.append(time)
        }
        guard let purchased = times[0] else { throw fault("an order without a purchase") }
        return OlistOrder(
            identifier: fields[0], customer: fields[1], status: status, purchased: purchased, approved: times[1],
            handedOver: times[2], delivered: times[3], estimated: times[4])
    }

    /// Returns the fields of a line; a field in quotes may have commas and doubled quotes.
    static func fields(_ line: Substring) -> [String] {
        var fields: [String] = []
        var field = ""
        var isQuoted = false
        var previousWasQuote = false
        for character in line {
            if character == "\"" {
                // A second quote right after a closing one is a quote of the text.
                if previousWasQuote { field.append("\"") }
                isQuoted.toggle()
                previousWasQuote = !isQuoted
                continue
            }
            previousWasQuote = false
            if character == ",", !isQuoted {
                fields.append(field)
                field = ""
            } else {
                field.append(character)
            }
        }
        return fields + [field]
    }

    /// - Returns: UNIX seconds of a local time taken as UTC.
    static func time(_ text: String) -> Int64? {
        let halves = text.split(separator: " ")
        guard halves.count == 2 else { return nil }
        let date = halves[0].split(separator: "/").map(String.init)
        let clock = halves[1].split(separator: ":").map(String.init)
        guard date.count == 3, clock.count == 2, date[2].count == 4 else { return nil }
        func two(_ text: String) -> String { text.count == 1 ? "0\(text)" : text }
        return RFC3339.parse("\(date[2])-\(two(date[0]))-\(two(date[1]))T\(two(clock[0])):\(clock[1]):00Z")
    }

    /// Generates orders of the same form, for machines without the real table.
    static func generate(_ count: Int, seed: UInt64) -> [OlistOrder] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in
            let identifier = (0..<4).map { _ in hex(random.next().bytes) }.joined().prefix(32)
            let customer = (0..<4).map { _ in hex(random.next().bytes) }.joined().prefix(32)
            // About as often as in the table: nearly all are delivered.
            let draw = Int.random(in: 0..<200, using: &random)
            let status: OlistOrder.Status =
                switch draw {
                case 0: .canceled
                case 1: .unavailable
                case 2: .invoiced
                case 3: .processing
                case 4...6: .shipped
                default: .delivered
                }
            let purchased = 1_483_228_800 + Int64.random(in: 0..<700 * 1440, using: &random) * 60
            let approved = purchased + Int64.random(in: 1..<2880, using: &random) * 60
            let handedOver = approved + Int64.random(in: 60..<7200, using: &random) * 60
            let delivered = handedOver + Int64.random(in: 600..<20000, using: &random) * 60
            let isSent = status == .delivered || status == .shipped
            return OlistOrder(
                identifier: String(identifier), customer: String(customer), status: status, purchased: purchased,
                approved: approved, handedOver: isSent ? handedOver : nil,
                delivered: status == .delivered ? delivered : nil, estimated: purchased + 20 * 86400)
        }
    }
}

extension UInt64 {
    /// The eight bytes, the highest first.
    fileprivate var bytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: self >> (56 - 8 * UInt64($0))) } }
}
