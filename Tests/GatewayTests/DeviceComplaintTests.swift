import Model
import Operations
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The classes of messages that devices send.
@Suite struct DeviceComplaintTests {
    /// Texts as Apple's frameworks write them about passes. Source: Wallet Orders §1.2e
    @Test(arguments: [
        ("Signature must contain a signing date", DeviceComplaint.signature), ("Signature is missing", .signature),
        ("the manifest has no entry for order.json", .signature),
        ("Invalid data error reading order. Order does not contain logo.png.", .picture),
        ("Invalid json from URL file:///order.json", .format),
        ("en.lproj/order.strings cannot be read", .localization), ("the request timed out", .other), ("", .other),
    ])
    func aMessageIsClassedByItsWords(_ text: String, _ complaint: DeviceComplaint) {
        #expect(DeviceComplaint(text.lowercased()) == complaint)
    }

    @Test func aMessageCountsForTheLongestBrandThatItNames() throws {
        let registry = MetricsRegistry(MetricRow.gateway)
        let complaints = DeviceComplaints(factory: registry)
        let brands = try ["order.com.example", "order.com.example.shop", "order.com.other"].map {
            try OrderTypeIdentifier($0)
        }
        let secret = "0123456789abcdef0123456789abcdef"
        for text in [
            "ORDER.com.example.shop: signature of device \(secret)", "order.com.example: signature",
            "signature of order.com.unheard-of", String(repeating: "x", count: 3000) + "order.com.other",
        ] { complaints.count(text, brands: brands) }
        let lines = registry.text.split(separator: "\n").filter { $0.hasPrefix("waybill_device_complaints_total{") }
        #expect(
            Set(lines) == [
                #"waybill_device_complaints_total{brand="order.com.example.shop",class="signature"} 1"#,
                #"waybill_device_complaints_total{brand="order.com.example",class="signature"} 1"#,
                #"waybill_device_complaints_total{brand="unknown",class="signature"} 1"#,
                #"waybill_device_complaints_total{brand="unknown",class="other"} 1"#,
            ])
        #expect(registry.undescribed == [])
        #expect(!registry.text.contains(secret))
    }
}

@Suite(.server, .timeLimit(.minutes(2))) struct DeviceComplaintWireTests {
    /// One address that floods the log makes no more complaints than it may have messages in the log.
    @Test func complaintsAreBoundedByTheLimitOfAnAddress() async throws {
        try await GatewayFixture.with { fixture in
            let message = #""\#(GatewayFixture.orderType): Signature is missing""#
            let body = #"{"logs":[\#(Array(repeating: message, count: 50).joined(separator: ","))]}"#
            let answer = try await fixture.once("POST", "/apple/v1/log", body: body)
            #expect(answer.status == 200)
            let series = #"waybill_device_complaints_total{brand="order.com.example.shop",class="signature"} 20"#
            #expect(fixture.metricsText.contains(series + "\n"))
            #expect(fixture.metricsText.contains("waybill_device_log_messages_total 50\n"))
            #expect(fixture.metricsText.contains("waybill_device_log_messages_dropped_total 30\n"))
        }
    }
}
