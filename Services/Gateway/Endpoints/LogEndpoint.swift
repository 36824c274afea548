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
    /// Most messages taken from one request, and most Unicode scalars of each.
    static let messageLimit = 20
    static let characterLimit = 500

    let metrics: GatewayMetrics
    let logger: Logger

    /// - Parameter body: `{"logs": ["…"]}` or a bare array of strings.
    func answer(_ body: ByteBuffer) -> Answer {
        guard let messages = Self.messages(body) else {
            return .failure(.badRequest, "the body must be {\"logs\": [\"…\"]}")
        }
        self.metrics.deviceLogs.increment(by: messages.count)
        for message in messages.prefix(Self.messageLimit) {
            self.logger.notice("message from a device", metadata: ["text": "\(Self.harmless(message))"])
        }
        return Answer(.ok)
    }

    static func messages(_ body: ByteBuffer) -> [String]? {
        guard let json = try? JSON(parsing: Array(body.readableBytesView)) else { return nil }
        guard let array = json.array ?? json.object?["logs"]?.array else { return nil }
        let messages = array.compactMap(\.string)
        return messages.count == array.count ? messages : nil
    }

    /// Control characters, which could forge log lines or drive a terminal, become spaces.
    static func harmless(_ message: String) -> String {
        String(
            message.unicodeScalars.prefix(Self.characterLimit).map {
                switch $0.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: " "
                default: Character($0)
                }
            })
    }
}
