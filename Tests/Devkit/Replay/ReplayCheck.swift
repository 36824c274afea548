import Foundation
import Kafka
import Model
import Operations

/// Compares the results of a replay with the expected ones.
struct ReplayCheck: Sendable {
    let stack: StackEnvironment
    let http: HTTPClient
    let tokens: DerivedTokens
    let orders: [ExpectedOrder]
    /// The orders whose packages the `openssl` program verifies.
    let samples: Set<Int>
    /// The orders that a device follows.
    let followed: Set<Int>
    /// The verifier that judges every package as Wallet would; if nil, only the samples are verified.
    var verifier: PackageVerifier?
    /// True if a change may become a dead letter twice, as after a crash between its dead letter and its commit.
    var mayRepeatLetters = false

    /// Orders that the gateway must not have: they were forgotten.
    var gone: Set<Int> = []

    /// The time within which the gateway has to serve a package.
    private static let patience: Duration = .seconds(30)

    private struct Outcome: Sendable {
        var differences: [String] = []
        /// The order.json of the orders that a device follows.
        var served: [Int: JSON] = [:]
    }

    /// Compares each order's package at the gateway with the document built from the table, and verifies samples by
    /// `openssl`.
    /// - Returns: the served versions of the orders that a device follows.
    func packages(_ report: inout ReplayReport) async -> [Int: JSON] {
        let concurrency = 16
        let outcome = await withTaskGroup(of: Outcome.self) { group in
            for first in 0..<concurrency {
                group.addTask {
                    var outcome = Outcome()
                    for index in stride(from: first, to: self.orders.count, by: concurrency) {
                        await self.look(at: index, &outcome)
                    }
                    return outcome
                }
            }
            return await group.reduce(into: Outcome()) { whole, part in
                whole.differences += part.differences
                whole.served.merge(part.served) { first, _ in first }
            }
        }
        report.samples = self.samples.count
        report.differences += outcome.differences
        return outcome.served
    }

    private func look(at index: Int, _ outcome: inout Outcome) async {
        let expected = self.orders[index]
        do {
            let key = OrderKey(orderType: self.stack.orderType, order: try OrderIdentifier(expected.identifier))
            if self.gone.contains(index) {
                let status = try await self.http.send(self.request(key, token: self.tokens.token(for: key))).status
                guard status == 401 else {
                    throw ToolError(.check, "it is forgotten, and the gateway answers \(status)")
                }
                return
            }
            let package = try await self.package(of: key, token: self.tokens.token(for: key))
            let archive = ZipReader(package)
            if let violation = archive.violations.first { throw ToolError(.check, "\(violation)") }
            guard let entry = archive.entries.first(where: { $0.name == "order.json" }) else {
                throw ToolError(.check, "no order.json")
            }
            let order = try JSON(parsing: entry.content)
            if self.followed.contains(index) { outcome.served[index] = order }
            let differences = [
                OrderDifference.between(order, expected: expected.document),
                OrderDifference.ofIdentity(
                    order, key: key, tokens: self.tokens.tokens(for: key), webServiceURL: self.stack.webServiceURL),
            ]
            if let difference = differences.compactMap(\.self).first { throw ToolError(.check, difference) }
            let report = await self.verifier?.verify(package, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
            if let violation = report?.violations.first { throw ToolError(.check, "\(violation)") }
            guard self.samples.contains(index) else { return }
            let roots = try readFile(self.stack.roots)
            if let violation = await PackageVerifier.byOpenSSL(package, roots: roots).violations.first {
                throw ToolError(.check, "\(violation)")
            }
        } catch {
            outcome.differences.append("order \(expected.identifier): \(error)")
        }
    }

    /// Repeats a fetch that the gateway cannot answer yet, as Wallet does: a package may be made only once it is asked
    /// for.
    private func package(of key: OrderKey, token: String) async throws -> [UInt8] {
        let request = self.request(key, token: token)
        let deadline = ContinuousClock.now + Self.patience
        while true {
            let response = try await self.http.send(request)
            if response.status == 200 { return response.body }
            guard response.status == 503, .now < deadline else {
                throw ToolError(.check, "the gateway answers \(response.status)")
            }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    private func request(_ key: OrderKey, token: String) -> HTTPRequest {
        HTTPRequest(
            url: "\(self.stack.gateway)/v1/orders/\(key)", headers: [("authorization", "AppleOrder \(token)")])
    }

    /// Checks that each device has the final version of the table, and exactly the one that the gateway serves.
    func devices(_ devices: [Int: WalletDevice], served: [Int: JSON], _ report: inout ReplayReport) async {
        for (story, device) in devices {
            let expected = self.orders[story]
            let order = await device.order(expected.identifier)
            let differences = [
                OrderDifference.between(order ?? .null, expected: expected.document),
                OrderDifference.ofDevice(order, served: served[story]),
            ]
            if let difference = differences.compactMap(\.self).first {
                report.differences.append("device of order \(expected.identifier): \(difference)")
            }
        }
    }

    /// Checks that exactly the broken changes became dead letters, each with the record as received, its code, and a
    /// reason that says where to look.
    func deadLetters(
        _ broken: [String: BrokenRecord], since offsets: [Int32: Int64], _ report: inout ReplayReport
    ) async throws {
        let topic = Topics().deadLetters
        let admin = try KafkaAdmin(self.stack.kafkaConfiguration())
        let ends = try await admin.endOffsets(topic)
        await admin.close()
        var missing = ends.reduce(Int64(0)) { $0 + $1.value }
        let consumer = try KafkaConsumer(
            self.stack.kafkaConfiguration(), group: "waybill-replay-\(randomHex(bytes: 6))",
            topics: [topic])
        var left = broken
        var judged: Set<String> = []
        var letters = 0
        let end = ContinuousClock.now + .seconds(60)
        while missing > 0, .now < end {
            for record in try await consumer.nextBatch(records: 1000, bytes: 64 << 20, wait: .milliseconds(500)) {
                missing -= 1
                guard record.offset >= offsets[record.partition] ?? 0,
                    case .letter = DeadLetterRecord.read(record)
                else { continue }
                letters += 1
                self.judge(record, &left, &judged, &report)
            }
        }
        await consumer.close()
        report.deadLetters = letters
        report.differences += left.map { "broken change at \($0.key) (\($0.value.kind)) is no dead letter" }
    }

    private func judge(
        _ record: KafkaRecord, _ left: inout [String: BrokenRecord], _ judged: inout Set<String>,
        _ report: inout ReplayReport
    ) {
        let origin = record.text(of: RecordHeader.origin.rawValue)
        let said = "\(record.text(of: RecordHeader.error.rawValue)): \(record.text(of: RecordHeader.reason.rawValue))"
        guard let broken = left.removeValue(forKey: origin) else {
            if self.mayRepeatLetters, judged.contains(origin) { return }
            report.differences.append("unexpected dead letter from \(origin): \(said)")
            return
        }
        judged.insert(origin)
        report.reasons[broken.kind] = said
        report.differences += broken.differences(record).map { "dead letter of \(broken.kind): \($0)" }
    }
}
