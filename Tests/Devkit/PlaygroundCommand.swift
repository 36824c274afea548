import ArgumentParser
import Foundation
import Kafka
import Model
import NIOHTTP1
import TestKit
import UnixSignals

/// `waybill-dev playground`: the whole system on this machine, and a page on which each step can be tried.
struct PlaygroundCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "playground",
        abstract: "Starts everything with a page to try order tracking: from the pay button to the update in Wallet.",
        discussion: """
            Starts a stack with compose/stack, the fakes of Apple's gateway and a simulated device for each visitor, \
            and prints one URL. Ends with SIGINT or SIGTERM and leaves nothing running.

            With --merchant and --public-url a real device pays on the page: Apple's sandbox makes the merchant \
            sessions. Nothing is charged, and a merchant of production is refused.
            """)

    @Option(help: "The stack.env of a running stack; without it one is started.") var stack: String?
    @Option(help: "The folder of the project, for compose/stack and the JSON Schemas.") var root = "."
    @Option(help: "The address that page and checkout role listen on; both are called at 127.0.0.1 in any case.")
    var host = "127.0.0.1"
    @Option(help: "The page's port; 0 chooses a free one.") var port = 8090
    @Option(help: "The checkout role's port; 0 chooses a free one.") var checkoutPort = 0
    @Option(
        name: .customLong("origin"),
        help: "The origin of another page that may call the checkout role; may be repeated.")
    var origins: [String] = []
    @Option(help: "Write what a shop needs to this file: CHECKOUT_URL, CHECKOUT_KEY and the like.") var env: String?
    @Option(help: "The directory of a merchant of Apple's sandbox, for real devices; needs --public-url.")
    var merchant: String?
    @Option(
        name: .customLong("public-url"),
        help: "The https address at which a proxy or tunnel offers the page; needs --merchant.")
    var publicURL: String?
    @Option(help: "Serve the page's own files from this folder, to work on them.") var page: String?

    func validate() throws {
        guard (self.merchant == nil) == (self.publicURL == nil) else {
            throw ValidationError("--merchant and --public-url go together: a real device needs both")
        }
    }

    func run() async throws {
        let sandbox = try self.merchant.map {
            try SandboxMerchant(directory: $0, publicURL: self.publicURL ?? "")
        }
        try Self.requireFree(self.port, "--port")
        try Self.requireFree(self.checkoutPort, "--checkout-port")
        if let stack {
            try await self.serve(stack, sandbox)
            return
        }
        let script = self.root + "/compose/stack"
        guard FileManager.default.isExecutableFile(atPath: script) else {
            throw ValidationError(
                "--root \(self.root): there is no compose/stack; name the project's folder or a --stack")
        }
        let directory = try TemporaryDirectory("playground")
        defer { directory.remove() }
        Console.progress(
            "playground: starting Redis, a Kafka broker, packager, gateway, pusher and the simulator of APNs")
        let folder = directory.path("stack")
        let down = { try await RunProgram.run([script, "down", "--dir", folder], within: .seconds(120)) }
        do {
            let up = try await RunProgram.run([script, "up", "--dir", folder], within: .seconds(3600))
            guard up.status == 0 else { throw ToolError(.program, "starting the stack: \(up.output)") }
            try await self.serve(folder + "/stack.env", sandbox)
        } catch {
            _ = try? await down()
            throw error
        }
        _ = try await down()
    }

    /// - Throws: `ToolError` naming a port on which a program listens.
    static func requireFree(_ port: Int, _ option: String) throws {
        guard port != 0 else { return }
        do {
            guard let number = UInt16(exactly: port) else { throw ToolError(.input, "it is none from 1 to 65535") }
            try ReservedPort(number).release()
        } catch let error as ToolError {
            throw ToolError(.input, "\(option) \(port): \(error)")
        } catch {
            throw ToolError(
                .input, "\(option) \(port): a program listens on this port: end it, or give another \(option)")
        }
    }

    private func serve(_ file: String, _ sandbox: SandboxMerchant?) async throws {
        let stack = try StackEnvironment(file: file)
        guard let webServiceURL = stack.webServiceURL else {
            throw ToolError(.input, "reading \(file): WEB_SERVICE_URL is missing")
        }
        let scratch = try TemporaryDirectory("merchant")
        defer { scratch.remove() }
        let authority = DevelopmentCertificates(
            directory: URL(fileURLWithPath: stack.roots).deletingLastPathComponent().path)
        let certificates = try DevelopmentMerchant.make(
            in: scratch.path, merchantIdentifier: PlaygroundMerchant.identifier, authority: authority)
        let apple = try await ApplePayGatewayFake.start(
            ApplePayGatewayRules(domains: [PlaygroundMerchant.identifier: ["127.0.0.1", "localhost"]]),
            certificates: certificates)
        // Chosen before the page is served, since the merchant lists the page's origin.
        let port = try self.port == 0 ? Self.freePort() : self.port
        let own = ["http://127.0.0.1:\(port)", "http://localhost:\(port)"]
        let checkout = try await PlaygroundCheckout.start(
            stack, host: self.host, port: self.checkoutPort,
            origins: own + self.origins + (sandbox.map { [$0.publicURL] } ?? []),
            merchant: sandbox.map { .sandbox($0) } ?? .simulated(apple, certificates), in: scratch)
        if let env { try self.write(stack, checkout, to: env) }
        let http = try HTTPClient()
        let journal = APNSJournal(admin: stack.apnsAdmin, http: http)
        try await journal.start()
        let environment = try PlaygroundEnvironment(
            stack: stack, webServiceURL: webServiceURL, checkout: checkout, journal: journal, http: http,
            page: PlaygroundPage(
                folder: self.page, checkout: sandbox?.publicURL ?? checkout.url,
                schemas: self.root + "/Shared/Model/Schemas"),
            sandbox: sandbox)
        try await environment.run(host: self.host, port: port) { _ in
            Console.line("playground: \(sandbox?.publicURL ?? own[0])/playground")
            if sandbox != nil { Console.line("behind it: \(own[0])") }
            Console.line("checkout: \(checkout.url)")
        }
        await checkout.stop()
        await apple.stop()
        await http.close()
    }

    private static func freePort() throws -> Int {
        let port = try ReservedPort()
        defer { port.release() }
        return Int(port.number)
    }

    /// Writes a shop's addresses and key to a file, one `NAME=value` per line, readable by its owner only.
    private func write(_ stack: StackEnvironment, _ checkout: PlaygroundCheckout, to path: String) throws {
        let lines = [
            "CHECKOUT_URL=\(checkout.url)", "CHECKOUT_KEY=\(checkout.key)", "ORDER_TYPE=\(stack.orderType)",
            "GATEWAY_URL=\(stack.gateway)", "APNS_ADMIN_URL=\(stack.apnsAdmin)", "ROOT_CA=\(stack.roots)",
            "WAYBILL_DEV=\(URL(filePath: CommandLine.arguments[0]).path)",
        ]
        let isMade = FileManager.default.createFile(
            atPath: path, contents: Data((lines.joined(separator: "\n") + "\n").utf8),
            attributes: [.posixPermissions: 0o600])
        guard isMade else { throw ToolError(.file, "writing \(path): cannot") }
    }
}

/// The parts of a running playground.
struct PlaygroundEnvironment: Sendable {
    private let server: PlaygroundServer
    private let shop: PlaygroundShop
    private let journal: APNSJournal
    private let consumer: KafkaConsumer
    private let devices: AsyncStream<PlaygroundDevice>
    private let addDevice: AsyncStream<PlaygroundDevice>.Continuation

    init(
        stack: StackEnvironment, webServiceURL: String, checkout: PlaygroundCheckout, journal: APNSJournal,
        http: HTTPClient, page: PlaygroundPage, sandbox: SandboxMerchant? = nil
    ) throws {
        let roots = try readFile(stack.roots)
        let sessions = PlaygroundSessions()
        let makeDevice: @Sendable (String) throws -> PlaygroundDevice = { session in
            let note: @Sendable (PlaygroundEntry) -> Void = { sessions.note($0, in: session) }
            let http = try HTTPClient { request, response, duration in
                var entry = PlaygroundEntry(
                    from: "device", to: "gateway", title: Self.title(of: request, response),
                    order: Self.order(in: request.url))
                entry.orders = Self.orders(listedIn: response)
                entry.exchange = PlaygroundEntry.Exchange(request: request, response: response, duration: duration)
                note(entry)
            }
            return PlaygroundDevice(
                wallet: WalletDevice(
                    gateway: stack.gateway, orderType: stack.orderType, http: http,
                    verifier: try PackageVerifier(rootsPEM: roots)),
                journal: journal, note: note)
        }
        let configuration = try stack.kafkaConfiguration()
        self.shop = PlaygroundShop(
            sessions: sessions, producer: try KafkaProducer(configuration), checkout: checkout, http: http,
            tokens: try DerivedTokens(file: stack.tokenSecrets), orderType: stack.orderType,
            webServiceURL: webServiceURL)
        let topics = Topics()
        self.consumer = try KafkaConsumer(
            configuration, group: "playground-\(randomHex(bytes: 8))", topics: [topics.orders, topics.deadLetters])
        (self.devices, self.addDevice) = AsyncStream.makeStream(of: PlaygroundDevice.self)
        self.server = PlaygroundServer(
            sessions: sessions, shop: self.shop, page: page,
            verifier: VerifierPage(rootsPEM: roots, rootName: "the root of the playground’s certificates"),
            merchant: (sandbox?.identifier ?? PlaygroundMerchant.identifier, sandbox?.publicURL),
            forwarding: sandbox.map { _ in
                PlaygroundForwarding(checkout: checkout.url, gateway: stack.gateway, http: http)
            }, makeDevice: makeDevice,
            run: { [addDevice] in addDevice.yield($0) })
        self.journal = journal
    }

    /// Returns the order that a request to the gateway is about; nil for a list of changed orders.
    static func order(in url: String) -> String? {
        let path = url.prefix { $0 != "?" }.split(separator: "/").map(String.init)
        guard path.count >= 3, ["orders", "registrations"].contains(path[path.count - 3]) else { return nil }
        return path[path.count - 1].removingPercentEncoding
    }

    /// Returns the orders in a list of changed orders; nil for any other answer.
    static func orders(listedIn response: HTTPResponse) -> [String]? {
        guard response.status == 200, response.header("content-type")?.hasPrefix("application/json") == true else {
            return nil
        }
        return (try? JSON(parsing: response.body))?.object?["orderIdentifiers"]?.array?.compactMap(\.string)
    }

    /// Returns the title of a request in the transcript.
    private static func title(of request: HTTPRequest, _ response: HTTPResponse) -> String {
        switch (request.method, response.status) {
        case (.POST, _): "Registers for updates: \(response.status)"
        case (.DELETE, _): "Unregisters: \(response.status)"
        case (_, 304): "Asks for the order again: 304, it is the same"
        case (_, 204): "Asks which orders changed: none"
        default:
            request.url.contains("/registrations/")
                ? "Asks which orders changed: \(response.status)" : "Fetches the order: \(response.status)"
        }
    }

    /// Serves until SIGINT or SIGTERM, then removes the orders of all sessions.
    func run(host: String, port: Int, onReady: @Sendable (Int) -> Void) async throws {
        var ended: [String] = []
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { return }
            }
            group.addTask { try await self.journal.run() }
            group.addTask {
                await withTaskGroup(of: Void.self) { devices in
                    for await device in self.devices { devices.addTask { await device.run() } }
                    devices.cancelAll()
                }
            }
            group.addTask {
                while !Task.isCancelled {
                    let records = try await self.consumer.nextBatch(records: 100, bytes: 4 << 20, wait: .seconds(5))
                    for record in records { self.shop.take(record) }
                    self.consumer.finished(records)
                }
            }
            // Before the group has partitions, the first visitor would see events late.
            while self.consumer.assignment.isEmpty { try await Task.sleep(for: .milliseconds(50)) }
            let listener = try await FakeServer.start(host: host, port: port, bodyLimit: VerifierPage.bodyLimit) {
                [server] request in
                await server.answer(request)
            }
            onReady(listener.port)
            // The first task to end is the one that received the signal, or one that failed.
            let end = await group.nextResult()
            group.cancelAll()
            // Answers the sessions' waiting requests.
            ended = self.server.sessions.closeAll()
            await listener.stop()
            try end?.get()
        }
        for identifier in ended { try? await self.shop.remove(self.shop.key(identifier), in: "") }
        self.addDevice.finish()
        self.journal.finish()
        await self.consumer.close()
        await self.shop.producer.close()
    }
}
