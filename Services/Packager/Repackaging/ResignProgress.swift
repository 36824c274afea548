import Model
import Store

/// The progress of a run through all orders of a brand, kept in Redis and shown to people.
struct ResignProgress: Hashable, Sendable {
    /// The purpose of the run: the brand in its present state, and the packages that it covers. A run for another
    /// purpose starts from the beginning.
    let purpose: String
    /// The Redis that the cursor belongs to.
    let server: String
    /// The position to continue from; nil at the beginning.
    var cursor: String?
    /// Orders that existed when the run began.
    let total: Int
    /// Orders that are done; counted again if a page is processed again.
    var done = 0
    /// Packages that were signed again under the same version.
    var signed = 0
    /// Orders that got a new version.
    var renewed = 0
    /// Orders that cannot be packaged with the brand as it is.
    var refused = 0
    /// Orders that cannot be read now: the next run finds them.
    var postponed = 0

    /// Counts the outcome of one order.
    mutating func count(_ outcome: OrderRepackager.Outcome) {
        self.done += 1
        switch outcome {
        case .current, .absent: break
        case .signed: self.signed += 1
        case .renewed: self.renewed += 1
        case .refused: self.refused += 1
        case .postponed: self.postponed += 1
        }
    }

    /// Returns one line for a terminal.
    ///
    /// - Parameters:
    ///   - sinceStart: the number of orders that this process has done, and in how many seconds.
    func line(sinceStart: (done: Int, seconds: Double)) -> String {
        let total = max(self.total, self.done)
        let percent = total == 0 ? 100 : self.done * 100 / total
        let rate = sinceStart.seconds > 0 ? Double(sinceStart.done) / sinceStart.seconds : 0
        var line = "\(self.done) of \(total) orders (\(percent)%), \(Int(rate.rounded()))/s"
        if rate > 0, total > self.done {
            let left = Int((Double(total - self.done) / rate).rounded(.up))
            line += ", \(left / 60) min \(left % 60) s left"
        }
        let postponed = self.postponed > 0 ? ", \(self.postponed) postponed" : ""
        return line + "; \(self.signed) re-signed, \(self.renewed) new versions, \(self.refused) refused\(postponed)"
    }
}

extension ResignProgress {
    /// The encoding for Redis.
    var encoded: [UInt8] {
        let json: JSON = [
            "purpose": .string(self.purpose), "server": .string(self.server),
            "cursor": self.cursor.map { .string($0) } ?? .null, "total": .integer(Int64(self.total)),
            "done": .integer(Int64(self.done)), "signed": .integer(Int64(self.signed)),
            "renewed": .integer(Int64(self.renewed)), "refused": .integer(Int64(self.refused)),
            "postponed": .integer(Int64(self.postponed)),
        ]
        return json.serialized
    }

    /// - Returns: nil for bytes that are no progress, or one that cannot be continued; then the run starts over, which
    ///   only costs time.
    init?(_ bytes: [UInt8], purpose: String, server: String) {
        guard let object = try? JSON(parsing: bytes).object, object["purpose"]?.string == purpose, !server.isEmpty,
            object["server"]?.string == server, let cursor = object["cursor"]?.string, OrderScan.isCursor(cursor)
        else { return nil }
        func count(_ name: String) -> Int {
            object[name]?.number.flatMap { Int($0.text) }.map { min(max($0, 0), 1 << 53) } ?? 0
        }
        self.init(
            purpose: purpose, server: server, cursor: cursor, total: count("total"), done: count("done"),
            signed: count("signed"), renewed: count("renewed"), refused: count("refused"),
            postponed: count("postponed"))
    }
}
