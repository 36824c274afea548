import ArgumentParser
import Foundation
import Model
import NIOHTTP1
import TestKit

/// `waybill-dev device-trial`: a guided trial with a real device.
struct DeviceTrialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device-trial",
        abstract: "Guides a trial with an iPhone, and writes down what it does.",
        discussion: """
            Listens between the device and the gateway: the tunnel or proxy that serves WAYBILL_WEB_SERVICE_URL leads \
            here, and each request goes on to --gateway. Each step says what to do; an empty line begins it, s skips \
            it, q ends the trial. The order is changed through the checkout role, with a key that has the scope \
            orders. The report has a table of answers, the settings that follow, and the requests, without \
            identifiers, tokens and push tokens. No money moves: pay only in Apple's sandbox.
            """)

    @Option(help: "Base URL of the gateway.") var gateway: String
    @Option(help: "Base URL of the checkout role.") var checkout: String
    @Option(help: "File whose first line is a key of the checkout role.") var keyFile: String
    @Option(help: "The order, <orderTypeIdentifier>/<orderIdentifier>.", transform: { try OrderKey($0) })
    var order: OrderKey
    @Option(help: "The file for the report.") var out: String
    @Option(help: "Address to listen on.") var host = "127.0.0.1"
    @Option(help: "Port to listen on; 0 chooses a free one.") var port = 8093
    @Option(help: "Most seconds that a step waits for the device.") var seconds = 180

    func run() async throws {
        let key = String(decoding: try readFile(self.keyFile).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let http = try HTTPClient()
        let proxy = DeviceTrialProxy(gateway: self.gateway, http: http)
        let listener = try await FakeServer.start(host: self.host, port: self.port) {
            .response(await proxy.answer($0))
        }
        Console.line("listening: http://\(self.host):\(listener.port), in front of \(self.gateway)")
        let run = DeviceTrialRun(
            proxy: proxy, limit: .seconds(self.seconds),
            change: { try await Self.change(self.order, $0, self.checkout, key, http) },
            say: { Console.line($0) }, line: { readLine() })
        let report = try await run.report()
        try Data(report.utf8).write(to: URL(filePath: self.out))
        Console.line("written: \(self.out)")
        await listener.stop()
        await http.close()
    }

    /// Changes a text of the order.
    static func change(
        _ order: OrderKey, _ text: String, _ checkout: String, _ key: String, _ http: HTTPClient
    ) async throws(ToolError) {
        let patch: JSON = ["statusDescription": .string(text)]
        let request = HTTPRequest(
            method: .PATCH, url: "\(checkout)/v1/checkout/orders/\(order)",
            headers: [("authorization", "Bearer \(key)"), ("content-type", "application/json")],
            body: patch.serialized)
        let answer = try await http.send(request, within: .seconds(20))
        guard answer.status == 202 else {
            throw ToolError(
                .protocol, "changing the order: \(answer.status) \(String(decoding: answer.body, as: UTF8.self))")
        }
    }
}

/// The steps of a trial, one after the other.
struct DeviceTrialRun: Sendable {
    let proxy: DeviceTrialProxy
    /// The longest wait of a step.
    let limit: Duration
    /// Changes the order, so that its new version has a text.
    let change: @Sendable (_ text: String) async throws -> Void
    let say: @Sendable (String) -> Void
    /// Returns the next line of the person; nil at the end of the input.
    let line: @Sendable () async -> String?

    /// - Throws: if the order cannot be changed.
    func report() async throws -> String {
        var results: [DeviceTrial.Result] = []
        let steps = DeviceTrial.steps
        for (index, step) in steps.enumerated() {
            self.say("\(index + 1) of \(steps.count), \(step.name): \(step.instruction)")
            guard let line = await self.line(), line != "q" else { break }
            let (place, began) = (self.proxy.seen.count, self.proxy.elapsed)
            var ending = DeviceTrial.Ending.skipped
            if line != "s" {
                self.proxy.refuse(step.refusals)
                if step.changesOrder { try await self.change("Trial, step \(index + 1)") }
                let isReached = await self.proxy.wait(for: step.goal, from: place, within: self.limit)
                ending = isReached ? .reached : .waited
                self.proxy.refuse(0)
            }
            let result = DeviceTrial.Result(
                step: step, ending: ending, began: began, seen: Array(self.proxy.seen[place...]))
            results.append(result)
            self.say("    \(result.answer)")
        }
        return DeviceTrial.report(results, self.proxy.seen, agents: self.proxy.agents)
    }
}
