import ArgumentParser
import Foundation
import Kafka
import Model

/// `waybill-dev publish`: publishes changes from files or standard input to Kafka.
struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish", abstract: "Publishes order documents, changes or whole CloudEvents.",
        discussion: """
            Each FILE is a JSON object; '-' reads one JSON object per line from standard input. An object with \
            specversion is published as is. With --type it is the data of such a change to --order. Otherwise, and \
            with --type waybill.order.merged, it is an order document (order.json): members that Waybill owns are \
            removed, and it is published as waybill.order.replaced unless --type says otherwise. \
            waybill.order.removed and waybill.order.announced read no file unless one is named.
            """)

    @OptionGroup var kafka: KafkaOptions
    @Option(help: "Order type identifier.") var orderType: String
    @Option(help: "Prefix of the topics.") var topicPrefix = "waybill."
    @Flag(help: "CloudEvents binary mode instead of structured.") var binary = false
    @Option(help: "CloudEvents type of the change in the files.") var type: String?
    @Option(help: "Order identifier; default: the document's.") var order: String?
    @Flag(help: "Notify no device of the changes.") var silent = false
    @Option(help: "Members that only the source of a waybill.order.merged writes: payment,fulfillments.status")
    var owns: String?
    @Option(help: "CloudEvents source.") var source = "/waybill-dev/publish"
    @Argument(help: "Files; '-' is standard input.") var files: [String] = ["-"]

    func run() async throws {
        let orderType = try OrderTypeIdentifier(self.orderType)
        let producer = try KafkaProducer(self.kafka.configuration())
        do {
            let type = self.type.flatMap(CloudEvent.ChangeType.init)
            if type == .removed || type == .announced, self.files == ["-"] {
                try await self.publish(nil, orderType, producer)
            } else {
                for file in self.files {
                    guard file == "-" else {
                        try await self.publish(try readFile(file), orderType, producer)
                        continue
                    }
                    while let line = readLine() {
                        if line.contains(where: { !$0.isWhitespace }) {
                            try await self.publish(Array(line.utf8), orderType, producer)
                        }
                    }
                }
            }
        } catch {
            await producer.close()
            throw error
        }
        await producer.close()
    }

    private func publish(_ bytes: [UInt8]?, _ orderType: OrderTypeIdentifier, _ producer: KafkaProducer) async throws {
        let topic = self.topicPrefix + "order-changes"
        let message: KafkaMessage
        let object = try bytes.map { try JSON(parsing: $0) }
        if let event = object?.object, event["specversion"] != nil {
            guard let subject = event["subject"]?.string else {
                throw ToolError(.input, "publishing a CloudEvent: it has no subject to key it with")
            }
            message = KafkaMessage(
                topic: topic, key: Array(subject.utf8), value: bytes,
                headers: [KafkaHeader(name: "content-type", value: Array("application/cloudevents+json".utf8))])
        } else {
            message = try self.event(object, orderType).message(topic: topic, mode: self.binary ? .binary : .structured)
        }
        let position = try await producer.produce(message)
        let key = String(decoding: message.key ?? [], as: UTF8.self)
        Console.line("\(key) -> \(position.topic)/\(position.partition)/\(position.offset)")
    }

    /// Returns a change of the type given on the command line, or a replacement.
    private func event(_ data: JSON?, _ orderType: OrderTypeIdentifier) throws -> CloudEvent {
        var data = data
        var identifier = self.order
        let isDocument = self.type == nil || self.type == CloudEvent.ChangeType.merged.rawValue
        if isDocument, let order = data {
            let (document, own) = try OrderFile.document(from: order)
            data = document
            identifier = identifier ?? own
        }
        guard let identifier else {
            throw ToolError(.input, "publishing a change: neither --order nor orderIdentifier says of which order")
        }
        let key = OrderKey(orderType: orderType, order: try OrderIdentifier(identifier))
        return CloudEvent(
            id: randomHex(bytes: 16), source: self.source,
            type: self.type ?? CloudEvent.ChangeType.replaced.rawValue, subject: key.description,
            time: RFC3339.format(epochSeconds: Int64(Date().timeIntervalSince1970)), isSilent: self.silent,
            owns: self.owns, data: data)
    }
}

/// `waybill-dev token KEY`: prints the derived token of an order.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Prints the derived authentication token of an order.",
        usage: "waybill-dev token [--secrets <file>] <orderTypeIdentifier>/<orderIdentifier>")

    @Option(help: "File with the token secrets, one per line; default: that of WAYBILL_TOKEN_SECRETS.")
    var secrets = ProcessInfo.processInfo.environment["WAYBILL_TOKEN_SECRETS"] ?? ""
    @Argument(help: "The order: <orderTypeIdentifier>/<orderIdentifier>.", transform: { try OrderKey($0) })
    var key: OrderKey

    func validate() throws {
        guard !self.secrets.isEmpty else {
            throw ValidationError("--secrets, or WAYBILL_TOKEN_SECRETS, must name the file with the token secrets")
        }
    }

    func run() throws { Console.line(try DerivedTokens(file: self.secrets).token(for: self.key)) }
}
