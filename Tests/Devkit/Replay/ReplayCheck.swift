import Foundation
import Kafka
import Model

/// Compares what came out of a replay with what had to.
struct ReplayCheck: Sendable {
    let run: ReplayRun
    /// How many packages the `openssl` program verifies.
    let samples: Int

    /// Each order's package in the gateway against the document built from the table, and samples by `openssl`.
    func packages(_ report: inout ReplayReport) async {
        let stories = self.run.plan.stories
        let step = max(1, stories.count / max(1, self.samples))
        let lanes = 16
        let results = await withTaskGroup(of: [String].self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    var differences: [String] = []
                    for index in stride(from: lane, to: stories.count, by: lanes) {
                        let isSample = self.samples > 0 && index % step == 0 && index / step < self.samples
                        if let difference = await self.difference(stories[index], isSample: isSample) {
                            differences.append("order \(stories[index].order.identifier): \(difference)")
                        }
                    }
                    return differences
                }
            }
            return await group.reduce(into: [String]()) { $0 += $1 }
        }
        report.samples = min(self.samples, (stories.count + step - 1) / step)
        report.differences += results
    }

    private func difference(_ story: OrderStory, isSample: Bool) async -> String? {
        do {
            let package = try await self.package(of: story.order.identifier)
            let archive = ZipReader(package)
            if let violation = archive.violations.first { return "\(violation)" }
            guard let entry = archive.entries.first(where: { $0.name == "order.json" }) else { return "no order.json" }
            if let difference = OrderDifference.between(try JSON(parsing: entry.content), expected: story.expected) {
                return difference
            }
            guard isSample else { return nil }
            let roots = try readFile(self.run.stack.roots)
            return await PackageVerifier.byOpenSSL(package, roots: roots).violations.first?.description
        } catch {
            return "\(error)"
        }
    }

    private func package(of identifier: String) async throws -> [UInt8] {
        let key = OrderKey(orderType: self.run.stack.orderType, order: try OrderIdentifier(identifier))
        let request = HTTPRequest(
            url: "\(self.run.stack.gateway)/v1/orders/\(key)",
            headers: [("authorization", "AppleOrder \(self.run.tokens.token(for: key))")])
        let response = try await self.run.http.send(request)
        guard response.status == 200 else { throw ToolError(.check, "the gateway answers \(response.status)") }
        return response.body
    }

    /// Each device ended with the last version.
    func devices(_ devices: [Int: WalletDevice], _ report: inout ReplayReport) async {
        for (story, device) in devices {
            let life = self.run.plan.stories[story]
            let order = await device.order(life.order.identifier) ?? .null
            if let difference = OrderDifference.between(order, expected: life.expected) {
                report.differences.append("device of order \(life.order.identifier): \(difference)")
            }
        }
    }

    /// Exactly the broken changes are dead letters, each with its code and a reason that says where to look.
    func deadLetters(
        _ broken: [String: BrokenChange], since offsets: [Int32: Int64], _ report: inout ReplayReport
    ) async throws {
        let topic = Topics().deadLetters
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: self.run.stack.kafka))
        let ends = try await admin.endOffsets(topic)
        await admin.close()
        var missing = ends.reduce(Int64(0)) { $0 + $1.value }
        let consumer = try KafkaConsumer(
            KafkaConfiguration(bootstrap: self.run.stack.kafka), group: "waybill-replay-\(randomHex(bytes: 6))",
            topics: [topic])
        var left = broken
        var letters = 0
        let end = ContinuousClock.now + .seconds(60)
        while missing > 0, .now < end {
            for record in try await consumer.nextBatch(records: 1000, bytes: 64 << 20, wait: .milliseconds(500)) {
                missing -= 1
                guard record.offset >= offsets[record.partition] ?? 0 else { continue }
                letters += 1
                self.judge(record, &left, &report)
            }
        }
        await consumer.close()
        report.deadLetters = letters
        report.differences += left.map { "broken change at \($0.key) (\($0.value)) is no dead letter" }
    }

    private func judge(_ record: KafkaRecord, _ left: inout [String: BrokenChange], _ report: inout ReplayReport) {
        func header(_ name: String) -> String {
            let value = record.headers.last { $0.name == name }?.value ?? []
            return String(decoding: value, as: UTF8.self)
        }
        let origin = header(DeadLetterHeader.origin)
        let code = header(DeadLetterHeader.error)
        let reason = header(DeadLetterHeader.reason)
        guard let kind = left.removeValue(forKey: origin) else {
            report.differences.append("unexpected dead letter from \(origin): \(code): \(reason)")
            return
        }
        report.reasons[kind] = "\(code): \(reason)"
        if code != kind.code || !reason.contains(kind.mention) {
            report.differences.append(
                "dead letter of \(kind): \(code): \(reason); expected \(kind.code) and a word of \(kind.mention)")
        }
    }
}
