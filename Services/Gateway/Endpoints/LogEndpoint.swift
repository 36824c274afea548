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
    /// Most Unicode scalars of a message.
    static let characterLimit = 500

    let metrics: GatewayMetrics
    let logger: Logger

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
        let admitted = messages.isEmpty ? 0 : admit(messages.count)
        self.metrics.deviceLogsDropped.increment(by: messages.count - admitted)
        for message in messages.prefix(admitted) {
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
