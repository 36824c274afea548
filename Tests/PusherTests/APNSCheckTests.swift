import APNS
import Foundation
import Logging
import Model
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Pusher

/// The check before a start: APNs with the certificate of each brand.
@Suite struct APNSCheckTests {
    private func findings(_ url: String, _ roots: String, _ brands: String) async throws -> [PreflightFinding] {
        let settings = try Settings(environment: [
            "WAYBILL_APNS_URL": url, "WAYBILL_APNS_ROOTS": roots, "WAYBILL_BRANDS": brands,
        ])
        let common = try CommonSettings(settings)
        let environment = ServiceEnvironment(
            common: common, group: .singleton, metrics: MetricsRegistry(), readiness: Readiness(conditions: []),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        return await APNSCheck(try PusherSettings(settings, common: common), environment).findings()
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func aConnectionIsMadeAndNothingIsSent() async throws {
        let brand = try PusherBrandFixture.shared.get()
        let directory = try TemporaryDirectory("apns-check")
        let brands = try brand.write(into: directory)
        let roots = try directory.write("roots.pem", brand.rootPEM)
        let apns = try await APNSSimulator.start(brand.simulator)
        #expect(try await self.findings(apns.url, roots, brands) == [])
        #expect(try await apns.deliveries().deliveries.isEmpty)
        await apns.stop()
        let away = try await self.findings(apns.url, roots, brands)
        #expect(away.map(\.area) == [.apns])
        #expect(away.first?.text.contains(PusherBrandFixture.orderType) == true)
        #expect(away.first?.fix.contains("WAYBILL_APNS_URL") == true)
    }

    @Test func theTableOfRightsHasWhatTheServiceChecks() {
        let topics = Topics()
        let role = KafkaRole.pusher(topics)
        for need in Pusher.needs(topics) {
            #expect(role.reads.contains(need.name) == need.isRead, "\(need.name)")
            #expect(role.writes.contains(need.name) == need.isWritten, "\(need.name)")
        }
        #expect(role.groups == [topics.group(of: Pusher.group), topics.group(of: Pusher.pendingGroup)])
    }
}
