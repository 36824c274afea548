import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A Redis cluster that grows while packagers work.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct SlotMoveServiceTests {
    @Test func changesArePackagedWithoutARestoreAfterAMasterIsAdded() async throws {
        try await Fleet.run(isCluster: true) { fleet in
            let cluster = try #require(fleet.server.cluster)
            let member = try fleet.member()
            try await fleet.working([member]) {
                let names = (0..<20).map { "o\($0)" }
                try await fleet.publish(names.map { ("order.replaced", $0, "r\($0)", ChangeLog.document($0)) })
                try await fleet.settle()
                let restores = member.metrics.counter("waybill_restores_total")
                let target = try await cluster.addMaster()
                // Longer than the view is known to have been complete.
                try await eventually("an uptime") {
                    try await target.command("info", "server").contains(/uptime_in_seconds:([5-9]|\d\d)\D/)
                }
                for name in names[..<5] {
                    let slot = HashSlot.of("\(try ChangeLog.key(name))".utf8)
                    let source = cluster.masters[slot / ((HashSlot.count + 2) / 3)]
                    try await cluster.move(slot: slot, from: source, to: target)
                }
                try await fleet.publish(
                    names.map { ("order.patched", $0, "p\($0)", ["statusDescription": "moved"]) })
                try await fleet.settle()
                try await eventually("complete") {
                    let shards = try await MaterializedView(redis: fleet.redis).look()
                    return ViewStatus(shards) == .complete && shards.count == 4
                }
                for result in try await OrderStore(redis: fleet.redis).orders(names.map { try ChangeLog.key($0) }) {
                    let state = try #require(try result.get()?.state)
                    #expect(state.version.ordinal == 2)
                    #expect(state.document.members["statusDescription"] == "moved")
                }
                #expect(member.metrics.counter("waybill_restores_total") == restores)
                try await fleet.verify([try ChangeLog.key("o0"), try ChangeLog.key("o9")])
                await target.stop()
            }
        }
    }
}
