import Kafka
import Model
import TestKit

@testable import Devkit

/// The constants and orders shared by the tests of the replay.
enum Orders {
    /// A valid constant.
    static let type = (try? OrderTypeIdentifier("order.com.example.shop"))!
    /// 2027-01-15T08:00:00Z, later than all times of the tables.
    static let now: Int64 = 1_800_000_000
    static let rules = BrandRules(orderType: Self.type, webServiceURL: "https://wallet.example.com/apple")

    static var fold: OrderFold {
        // A valid constant.
        let token = (try? AuthenticationToken("0123456789abcdef"))!
        return OrderFold(rules: Self.rules) { _ in token }
    }

    /// Returns orders that no table contains: every status with every set of times in turn, in any order of the times.
    static func wild(_ count: Int, seed: UInt64) -> [OlistOrder] {
        var random = SeededGenerator(seed: seed)
        let statuses = OlistOrder.Status.allCases
        return (0..<count).map { index in
            let (set, status) = index.quotientAndRemainder(dividingBy: statuses.count)
            func time(_ place: Int) -> Int64? {
                // A small range, so that equal times and times before the purchase occur too.
                (set >> place) & 1 == 1 ? 1_500_000_000 + Int64.random(in: -3...6, using: &random) * 60 : nil
            }
            return OlistOrder(
                identifier: "wild-\(seed)-\(index)", customer: "customer-\(index % 97)",
                status: statuses[status], purchased: 1_500_000_000,
                approved: time(0), handedOver: time(1), delivered: time(2), estimated: time(3))
        }
    }
}

extension KafkaMessage {
    /// Decodes the message as the packager does.
    func decoded() throws(ChangeFault) -> OrderChange {
        try OrderChange.decode(
            key: self.key, value: self.value, headers: self.headers.map { ($0.name, $0.value) })
    }

    /// Returns the header's text, or nil if the header is missing.
    func header(_ name: String) -> String? {
        self.headers.first { $0.name == name }?.value.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Returns an attribute of the event from the headers or the body.
    func attribute(_ name: String) -> String? {
        if let header = self.header("ce_\(name)") { return header }
        return (try? JSON(parsing: self.value ?? []))?.object?[name]?.string
    }
}
