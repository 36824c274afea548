import Brands
import CoreMetrics
import HTTPServer
import Logging
import Model
import NIOCore
import NIOHTTP1
import Operations

/// `POST /v1/log`: errors reported by a device.
///
/// Anyone can send this, so none of it is trusted: it is counted and bounded, and made harmless before it is logged.
/// Source: Wallet Orders §1.2e
struct LogEndpoint: Sendable {
    let metrics: GatewayMetrics
    let brands: BrandLibrary
    /// The logger for messages; nil to only count them.
    let logger: Logger?

    /// Counts messages by what they complain of, and logs them. Wallet accepts only 200 as success, so excess ones are
    /// dropped silently.
    ///
    /// - Parameters:
    ///   - body: `{"logs": ["…"]}` or a bare array of strings.
    ///   - admit: returns the number of messages that may be looked at.
    func answer(_ body: ByteBuffer, admit: (Int) -> Int) -> Answer {
        guard let messages = Self.messages(body) else {
            return .failure(.badRequest, "the body must be {\"logs\": [\"…\"]}")
        }
        self.metrics.deviceLogs.increment(by: messages.count)
        let admitted = messages.isEmpty ? 0 : admit(messages.count)
        self.metrics.deviceLogsDropped.increment(by: messages.count - admitted)
        guard admitted > 0 else { return Answer(.ok) }
        let brands = Array(self.brands.brands.orderTypes)
        for message in messages.prefix(admitted) {
            self.metrics.complaints.count(message, brands: brands)
            self.logger?.info("message from a device", metadata: ["text": "\(ForeignText.harmless(message))"])
        }
        return Answer(.ok)
    }

    static func messages(_ body: ByteBuffer) -> [String]? {
        guard let json = try? JSON(parsing: Array(body.readableBytesView)) else { return nil }
        guard let array = json.array ?? json.object?["logs"]?.array else { return nil }
        let messages = array.compactMap(\.string)
        return messages.count == array.count ? messages : nil
    }
}
