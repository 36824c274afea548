import CoreMetrics
import Logging
import Model
import NIOCore
import NIOHTTP1

/// `POST /v1/log`: what went wrong on a device.
///
/// Anybody can send this, so nothing in it is believed: it is counted, bounded and made harmless before it is logged.
/// Source: Wallet Orders §1.2e
struct LogEndpoint: Sendable {
    let metrics: GatewayMetrics
    /// Where messages go; nil counts them only.
    let logger: Logger?

    /// Wallet takes nothing but 200 for success, so messages that are too many are counted and dropped without a word.
    ///
    /// - Parameters:
    ///   - body: `{"logs": ["…"]}` or a bare array of strings.
    ///   - admit: says how many of some messages may be logged.
    func answer(_ body: ByteBuffer, admit: (Int) -> Int) -> Answer {
        guard let messages = Self.messages(body) else {
            return .failure(.badRequest, "the body must be {\"logs\": [\"…\"]}")
        }
        self.metrics.deviceLogs.increment(by: messages.count)
        guard let logger = self.logger else { return Answer(.ok) }
        let admitted = messages.isEmpty ? 0 : admit(messages.count)
        self.metrics.deviceLogsDropped.increment(by: messages.count - admitted)
        for message in messages.prefix(admitted) {
            logger.info("message from a device", metadata: ["text": "\(DeviceMessage.harmless(message))"])
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
