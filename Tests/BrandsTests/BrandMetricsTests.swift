import CoreMetrics
import Model
import Operations
import Testing

@testable import Brands

@Suite struct BrandMetricsTests {
    private static let noon: Int64 = 1_767_268_800
    private static let day: Int64 = 86_400

    private func certificate(
        _ use: BrandCertificate.Use, _ days: Int64, of type: String = "order.com.example.shop"
    ) throws -> BrandCertificate {
        BrandCertificate(
            orderType: try OrderTypeIdentifier(type), use: use, notAfterEpochSeconds: Self.noon + days * Self.day)
    }

    @Test func anExpiryWarningIsDueDailyBelowThirtyDays() throws {
        var warnings = ExpiryWarnings()
        let soon = try self.certificate(.signing, 30)
        let late = try self.certificate(.intermediate, 300)
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon) == [])
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon + 1) == [soon])
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon + Self.day) == [])
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon + Self.day + 1) == [soon])
        // A warning is due after the expiry too, and immediately when the clock was set back.
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon + 40 * Self.day) == [soon])
        #expect(warnings.due([soon, late], nowEpochSeconds: Self.noon + 39 * Self.day) == [soon])
        // A renewed certificate counts as a different one.
        let renewed = try self.certificate(.signing, 400)
        #expect(warnings.due([renewed, late], nowEpochSeconds: Self.noon + 40 * Self.day) == [])
    }

    @Test func theMetricsOfARemovedBrandAreRemoved() throws {
        let registry = MetricsRegistry()
        let metrics = BrandMetrics(factory: registry)
        let shop = try self.certificate(.push, 12)
        let other = try self.certificate(.signing, -1, of: "order.com.example.other")
        metrics.update([shop, other], failures: [])
        #expect(
            registry.text == """
                # HELP waybill_brand_load_failed 1 while a brand cannot be loaded
                # TYPE waybill_brand_load_failed gauge
                waybill_brand_load_failed{brand="order.com.example.other"} 0.0
                waybill_brand_load_failed{brand="order.com.example.shop"} 0.0

                """ + self.expiry(registry))
        let expired = Double(Self.noon - Self.day)
        #expect(self.expiry(registry).contains("example.other\",certificate=\"signing\"} \(expired)"))
        #expect(registry.undescribed == [])
        metrics.update([shop], failures: [])
        #expect(!registry.text.contains("example.other"))
        #expect(registry.text.contains("certificate=\"push\"} \(Double(Self.noon + 12 * Self.day))"))
        // A brand that returns is reported again.
        metrics.update([shop, other], failures: [])
        #expect(registry.text.contains("certificate=\"signing\"} \(Double(Self.noon - Self.day))"))
    }

    /// Returns the lines of the expiries.
    private func expiry(_ registry: MetricsRegistry) -> String {
        registry.text.split(separator: "\n").filter { $0.contains("waybill_certificate_expiry_timestamp_seconds") }
            .map { "\($0)\n" }.joined()
    }

    @Test func twoHundredBrandsHaveEightHundredSeries() throws {
        let registry = MetricsRegistry()
        let metrics = BrandMetrics(factory: registry)
        let certificates = try (0..<200).flatMap { number in
            try [BrandCertificate.Use.signing, .intermediate, .push].map {
                try self.certificate($0, 100, of: "order.com.example.shop\(number)")
            }
        }
        metrics.update(certificates, failures: [])
        #expect(registry.text.split(separator: "\n").count { !$0.hasPrefix("#") } == 800)
    }
}
