import Model
import NIOCore
import NIOHTTP1

/// The admin port: plain HTTP/1.1, one request at a time per connection.
final class APNSSimulatorAdmin: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let state: APNSSimulatorState
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var isTooLarge = false

    /// The most bytes of a request's body: a scenario may be long.
    static let bodyLimit = 4 << 20

    init(_ state: APNSSimulatorState) { self.state = state }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            self.body = []
            self.isTooLarge = false
        case .body(let buffer):
            if self.body.count + buffer.readableBytes > Self.bodyLimit {
                self.isTooLarge = true
            } else {
                self.body.append(contentsOf: buffer.readableBytesView)
            }
        case .end:
            guard let head = self.head else { return }
            self.head = nil
            self.answer(head, context: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answer(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        if self.isTooLarge {
            let refusal = APNSSimulatorAdminCommand.Refusal(
                status: 413, message: "a body has at most \(Self.bodyLimit) bytes")
            return self.respond(refusal.status, refusal.json, to: head, context: context)
        }
        do {
            let command = try APNSSimulatorAdminCommand(
                method: head.method.rawValue, uri: head.uri, body: self.body,
                nowEpochMilliseconds: self.state.configuration.nowEpochMilliseconds())
            self.run(command, head, context: context)
        } catch {
            self.respond(error.status, error.json, to: head, context: context)
        }
    }

    private func run(_ command: APNSSimulatorAdminCommand, _ head: HTTPRequestHead, context: ChannelHandlerContext) {
        switch command {
        case .deliveries(let after, let wait, let limit):
            self.state.wait(after: after, atMost: .milliseconds(wait)).assumeIsolated().whenComplete { _ in
                guard context.channel.isActive else { return }
                let json = self.state.deliveries(after: after, limit: limit).json
                self.respond(200, json, to: head, context: context)
            }
        case .journal(let after, let limit):
            self.respond(200, self.state.events(after: after, limit: limit).json, to: head, context: context)
        case .clearJournal:
            self.state.clearEvents()
            self.respond(200, "{}", to: head, context: context)
        case .clearDeliveries:
            self.state.clearDeliveries()
            self.respond(200, "{}", to: head, context: context)
        case .faults:
            let faults = JSON.object(JSONObject([("faults", .array(self.state.faults.all.map(\.json)))]))
            self.respond(200, faults.text, to: head, context: context)
        case .addFault(let fault):
            guard let (number, connections) = self.state.add(fault) else {
                let refusal = APNSSimulatorAdminCommand.Refusal(status: 409, message: "too many faults stand")
                return self.respond(refusal.status, refusal.json, to: head, context: context)
            }
            let text = "{\"fault\":\(number.map { String($0) } ?? "null"),\"connections\":\(connections)}"
            self.respond(201, text, to: head, context: context)
        case .clearFaults:
            self.state.clearFaults()
            self.respond(200, "{}", to: head, context: context)
        case .scenario: self.respond(200, self.state.scenarioJSON, to: head, context: context)
        case .runScenario(let scenario):
            self.state.run(scenario)
            self.respond(201, "{\"steps\":\(scenario.steps.count)}", to: head, context: context)
        case .clearScenario:
            self.state.clearScenario()
            self.respond(200, "{}", to: head, context: context)
        case .unheard: self.respond(200, self.state.unheardJSON, to: head, context: context)
        case .statistics: self.respond(200, self.state.currentStatistics.json, to: head, context: context)
        case .connections:
            let connections = self.state.connectionInformation.map(\.json).joined(separator: ",")
            self.respond(200, "{\"connections\":[\(connections)]}", to: head, context: context)
        }
    }

    private func respond(_ status: Int, _ json: String, to head: HTTPRequestHead, context: ChannelHandlerContext) {
        let body = ByteBuffer(string: json + "\n")
        let headers: HTTPHeaders = [
            "content-type": "application/json", "content-length": String(body.readableBytes),
            "connection": head.isKeepAlive ? "keep-alive" : "close",
        ]
        let response = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        context.write(self.wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        let written = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !head.isKeepAlive { written.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
    }
}
