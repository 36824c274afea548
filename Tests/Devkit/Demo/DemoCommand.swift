import ArgumentParser
import Foundation
import Kafka
import Model

/// `waybill-dev demo`: sends the example orders through a stack and prints the transcript of `compose/demo`.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Sends the example orders and updates through a stack, and follows them as Wallet does.")

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Option(help: "The directory with the example orders.") var examples: String

    /// The deadline of each step.
    private static let patience = Duration.seconds(15)

    func run() async throws {
        let stack = try StackEnvironment(file: self.stack)
        let files = try FileManager.default.contentsOfDirectory(atPath: self.examples)
            .filter { $0.hasSuffix(".json") }.sorted()
        guard !files.isEmpty else { throw ToolError(.input, "reading \(self.examples): no example orders") }
        let http = try HTTPClient()
        let journal = APNSJournal(admin: stack.apnsAdmin, http: http)
        let phone = WalletDevice(
            gateway: stack.gateway, orderType: stack.orderType, http: http,
            verifier: try PackageVerifier(rootsPEM: readFile(stack.roots)))
        let walk = DemoWalk(
            stack: stack, phone: phone, producer: try KafkaProducer(stack.kafkaConfiguration()),
            journal: journal, pushes: DemoPushes(journal.subscribe(phone.pushToken)),
            tokens: try DerivedTokens(file: stack.tokenSecrets), patience: Self.patience)
        try await journal.start()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await journal.run() }
            for file in files { try await walk.follow(file: file, content: readFile("\(self.examples)/\(file)")) }
            try await walk.finish()
            group.cancelAll()
        }
        journal.finish()
        await walk.producer.close()
        await http.close()
    }
}

/// The pushes to the phone, returned one at a time with a deadline.
actor DemoPushes {
    private let stream: AsyncStream<APNSJournal.Delivery>

    init(_ stream: AsyncStream<APNSJournal.Delivery>) { self.stream = stream }

    /// - Throws: `ToolError` with code `.timeout`.
    func next(within patience: Duration) async throws -> APNSJournal.Delivery {
        try await withThrowingTaskGroup(of: APNSJournal.Delivery?.self) { group in
            group.addTask { [stream] in
                for await delivery in stream { return delivery }
                return nil
            }
            group.addTask {
                try await Task.sleep(for: patience)
                throw ToolError(.timeout, "waiting for a push: none within \(patience)")
            }
            defer { group.cancelAll() }

            guard let delivery = try await group.next() ?? nil else {
                throw ToolError(.closed, "waiting for a push: the journal ended")
            }
            return delivery
        }
    }
}
