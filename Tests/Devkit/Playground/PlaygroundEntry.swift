import Foundation
import Model
import NIOHTTP1

/// An event that really happened, as the playground's transcript shows it.
struct PlaygroundEntry: Sendable {
    var number = 0
    let epochMilliseconds = Int64(Date().timeIntervalSince1970 * 1000)
    let from: String
    let to: String
    let title: String
    var order: String?
    /// The orders that a push or a list of changed orders turned out to be about; nil if that is not known.
    var orders: [String]?
    /// Members for people: topic, partition, offset, files.
    var detail: JSON?
    var exchange: Exchange?

    /// A request with its answer.
    struct Exchange: Sendable {
        let request: HTTPRequest
        let response: HTTPResponse
        let duration: Duration

        /// Returns a text of at most 4 KiB as it is; anything else, such as a package, is described by length and type.
        private static func text(_ bytes: [UInt8], _ type: String?) -> JSON {
            guard !bytes.isEmpty else { return "" }
            guard bytes.count <= 4096, type == nil || type?.contains("json") == true || type?.hasPrefix("text/") == true
            else { return .string("\(bytes.count) bytes of \(type ?? "unknown type")") }
            return .string(String(decoding: bytes, as: UTF8.self))
        }

        var requestJSON: JSON {
            [
                "method": .string(self.request.method.rawValue), "url": .string(self.request.url),
                "headers": .array(self.request.headers.map { [.string($0.0), .string($0.1)] }),
                "body": Self.text(self.request.body, "application/json"),
            ]
        }

        var responseJSON: JSON {
            [
                "status": .integer(Int64(self.response.status)),
                "headers": .array(self.response.headers.map { [.string($0.name), .string($0.value)] }),
                "body": Self.text(self.response.body, self.response.header("content-type")),
                "milliseconds": .integer(self.duration.microseconds / 1000),
            ]
        }
    }

    var json: JSON {
        var object: JSONObject = [
            "number": .integer(Int64(self.number)), "time": .integer(self.epochMilliseconds),
            "from": .string(self.from), "to": .string(self.to), "title": .string(self.title),
        ]
        object["order"] = self.order.map { .string($0) }
        object["orders"] = self.orders.map { .array($0.map { .string($0) }) }
        object["detail"] = self.detail
        object["request"] = self.exchange?.requestJSON
        object["response"] = self.exchange?.responseJSON
        return .object(object)
    }
}
