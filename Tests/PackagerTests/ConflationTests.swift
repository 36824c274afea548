import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Guarantee: a backlog costs one signature per order, and a change that says nothing new costs none. The service's own
/// metrics, read from outside, show it.
@Suite(.server) struct ConflationTests {
    private static let orders = 60

    /// Rounds of changes, each of which changes every order.
    private func rounds(_ numbers: ClosedRange<Int>, id: String) -> [CrashChange] {
        numbers.flatMap { round in
            (0..<Self.orders).map { order in
                CrashChange(
                    order: "o\(order)", id: "\(id)-\(round)-\(order)",
                    kind: round == 0 ? .replaced(number: "0") : .patched(number: "\(round)"))
            }
        }
    }

    @Test(.timeLimit(.minutes(2))) func aBacklogIsSignedOncePerOrderAndARepetitionNever() async throws {
        try await CrashFixture.run { fixture in
            var log = self.rounds(0...9, id: "a")
            try await fixture.publish(log)
            let worker = try fixture.worker()
            try await fixture.caughtUp(worker)
            // The first batch may hold only the first records of some partitions; the rest has arrived by then.
            let signed = try await fixture.metric("waybill_packages_built_total", of: worker)
            #expect((Self.orders...2 * Self.orders).contains(signed), "\(signed) signatures for \(Self.orders) orders")
            let versions = try await fixture.published()[fixture.topics.orders] ?? []
            #expect(versions.count == signed)
            let conflated = try await fixture.metric("waybill_changes_conflated_total", of: worker)
            #expect(conflated == log.count - signed)

            let same = (0..<Self.orders).flatMap { order in
                (0..<3).map { CrashChange(order: "o\(order)", id: "b-\($0)-\(order)", kind: .patched(number: "9")) }
            }
            try await fixture.publish(same)
            log += same
            try await fixture.caughtUp(worker)
            #expect(try await fixture.metric("waybill_packages_built_total", of: worker) == signed)
            #expect(try await fixture.metric("waybill_changes_unchanged_total", of: worker) == same.count)
            #expect(try await fixture.metric("waybill_changes_consumed_total", of: worker) == log.count)
            #expect(try await fixture.published()[fixture.topics.orders]?.count == signed)
            #expect(await worker.stop() == .code(0))
        }
    }
}

extension CrashFixture {
    /// Returns a counter of a worker, read over HTTP.
    func metric(_ name: String, of worker: ChildProcess) async throws -> Int {
        let line = try await worker.line(containing: "operations endpoint listening")
        let port = try #require(line.split(separator: ":").last?.prefix { $0.isNumber }).description
        let connection = try await RawConnection.open(port: try #require(Int(port)))
        let answer = try await connection.exchange("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await connection.close()
        let value = answer.text.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
        return Int(value?.dropFirst(name.utf8.count + 1) ?? "") ?? 0
    }
}
