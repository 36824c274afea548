import Model

/// The figures of one brand by day, from the records of `waybill.adoption`.
struct AdoptionReport: Sendable {
    /// One day: the sums of its parts.
    struct Day: Hashable, Sendable {
        var counts: [AdoptionFigure: Int64] = [:]
        /// Of the last record that has them; nil if none has.
        var orders: Int64?
        var devices: Int64?
        fileprivate var timestamp = Int64.min
    }

    let brand: OrderTypeIdentifier
    /// The first day.
    let since: String
    private var parts: [AdoptionKey: (record: AdoptionRecord, timestamp: Int64)] = [:]
    /// Records that cannot be read.
    private(set) var unreadable = 0

    init(brand: OrderTypeIdentifier, since: String) {
        self.brand = brand
        self.since = since
    }

    /// Takes a record of the topic; of two with one key the later one counts.
    mutating func take(key: [UInt8]?, value: [UInt8]?, epochMilliseconds: Int64) {
        guard let value else { return }
        guard let key = try? AdoptionKey(String(decoding: key ?? [], as: UTF8.self)) else {
            self.unreadable += 1
            return
        }
        guard key.brand == self.brand, key.day >= self.since else { return }
        guard let record = try? AdoptionRecord.decode(value) else {
            self.unreadable += 1
            return
        }
        self.parts[key] = (record, epochMilliseconds)
    }

    /// The days with a record.
    var days: [(day: String, figures: Day)] {
        var days: [String: Day] = [:]
        for (key, part) in self.parts {
            var day = days[key.day] ?? Day()
            for (figure, count) in part.record.counts { day.counts[figure, default: 0] += count }
            if part.record.orders != nil, part.timestamp >= day.timestamp {
                (day.orders, day.devices) = (part.record.orders, part.record.devices)
                day.timestamp = part.timestamp
            }
            days[key.day] = day
        }
        return days.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

/// The forms of a report.
enum AdoptionReportFormat {
    case table, json, csv

    private static let names =
        ["day"] + AdoptionFigure.allCases.map(\.rawValue) + ["orders", "devices"]

    func text(_ report: AdoptionReport) -> String {
        switch self {
        case .json: Self.json(report)
        case .csv: Self.rows(report).map { $0.joined(separator: ",") + "\n" }.joined()
        case .table: Self.table(report)
        }
    }

    /// Returns the heading and a row for each day; empty for what is not known.
    private static func rows(_ report: AdoptionReport) -> [[String]] {
        [Self.names]
            + report.days.map { day, figures in
                [day] + AdoptionFigure.allCases.map { String(figures.counts[$0] ?? 0) }
                    + [figures.orders, figures.devices].map { $0.map(String.init) ?? "" }
            }
    }

    private static func table(_ report: AdoptionReport) -> String {
        let days = report.days
        guard !days.isEmpty else { return "nothing was counted of \(report.brand) since \(report.since)\n" }
        let rows = Self.rows(report)
        let widths = rows[0].indices.map { column in rows.map { $0[column].utf8.count }.max() ?? 0 }
        let lines = rows.map { row in
            zip(row, widths).map { cell, width in
                String(repeating: " ", count: width - cell.utf8.count) + cell
            }.joined(separator: "  ")
        }
        func sum(_ figure: AdoptionFigure) -> Int64 { days.reduce(0) { $0 + ($1.figures.counts[figure] ?? 0) } }
        let seconds = AdoptionFigure.promptSeconds
        let share: String = {
            guard sum(.updated) > 0 else { return "no update was fetched" }
            let tenths = sum(.prompt) * 1000 / sum(.updated)
            return "\(tenths / 10).\(tenths % 10) % of the updates were fetched within \(seconds) s"
        }()
        let total =
            "\(sum(.fetched)) orders were fetched, \(sum(.added)) came into Wallet, \(sum(.removed)) left it; \(share)"
        return (lines + ["", total]).map { $0 + "\n" }.joined()
    }

    /// One object for each day, each on its line.
    private static func json(_ report: AdoptionReport) -> String {
        report.days.map { day, figures in
            var members: [(String, JSON)] = [("brand", .string(report.brand.rawValue)), ("day", .string(day))]
            members += AdoptionFigure.allCases.map { ($0.rawValue, .integer(figures.counts[$0] ?? 0)) }
            members += [("orders", figures.orders), ("devices", figures.devices)].compactMap { name, level in
                level.map { (name, .integer($0)) }
            }
            return JSON.object(JSONObject(members)).text + "\n"
        }.joined()
    }
}
