import ArgumentParser
import Kafka
import Model

/// `waybill-dev chaos`: the part of a chaos run that publishes, follows and compares the orders.
struct ChaosCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chaos",
        abstract: "Streams changes through a stack while faults are injected, then compares everything.",
        discussion: """
            compose/bench chaos drives it: "mark NAME" on standard input means that a fault is over, "pause" that \
            nothing may be published until "move HOST:PORT", which means that all is in another Kafka now, "forget COUNT" \
            that so many orders are to be forgotten with the packager's command, of which some are made anew, and "end" \
            that no more faults will come. It prints "started", "recovered NAME PACKAGER PUSHER GATEWAY" \
            (milliseconds, -1: not within two minutes), "paused", "moved", "published", and at the end "count NAME \
            NUMBER" and "difference TEXT" lines. After a mark whose name ends in -older, packages may be older than \
            before until that is repaired. Exit code 1 if anything differs.
            """)

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Option(help: "A table of orders, CSV as for waybill-dev replay; without one orders are generated.")
    var orders: String?
    @Option(help: "Length of the stream in seconds.") var seconds = 60
    @Option(help: "Changes per second.") var rate = 40
    @Option(help: "Simulated devices.") var devices = 60
    @Option(help: "Orders on each device.") var ordersPerDevice = 3
    @Option(help: "Packages to verify with the openssl program.") var samples = 20
    @Option(help: "Maximum number of seconds for the system to become idle.") var patience = 240
    @Option(help: "Seed of all random choices.") var seed: UInt64 = 1
    @Flag(help: "The broker is librdkafka's own: refuse a stream that does not fit into it.") var embedded = false

    func validate() throws {
        guard (1...86_400).contains(self.seconds), (1...100_000).contains(self.rate),
            (1...86_400).contains(self.patience), (0...10_000).contains(self.devices),
            (1...1000).contains(self.ordersPerDevice), self.samples >= 0
        else {
            throw ValidationError("at most a day, 100000 changes a second, 10000 devices with 1000 orders each")
        }
    }

    func run() async throws {
        let stack = try StackEnvironment(file: self.stack)
        let count = self.seconds * self.rate
        let orders: [OlistOrder]
        if let path = self.orders {
            orders = try OlistTable.parse(String(decoding: readFile(path), as: UTF8.self))
        } else {
            orders = OlistTable.generate(max(10, count / 8), seed: self.seed)
        }
        let plan = ChaosPlan(orders, orderType: stack.orderType, count: count, seed: self.seed)
        if self.embedded {
            let admin = try KafkaAdmin(stack.kafkaConfiguration())
            let partitions = try await admin.partitions(Topics().orders)
            await admin.close()
            let bounds = ChaosBounds(
                partitions: partitions, changeBytes: plan.changeBytes, documentBytes: plan.documentBytes)
            if let refusal = bounds.refusal(changes: plan.steps.count, seconds: self.seconds) {
                Console.progress("waybill-dev chaos: \(refusal)")
                throw ExitCode(2)
            }
        }
        Console.progress(
            "\(plan.orders.count) orders, \(plan.steps.count) changes, \(self.devices) devices with up to "
                + "\(self.ordersPerDevice) orders each, seed \(self.seed)")
        let run = try ChaosRun(
            stack: stack, plan: plan, rate: self.rate, devices: self.devices, ordersPerDevice: self.ordersPerDevice,
            seed: self.seed, patience: .seconds(self.patience), isEmbedded: self.embedded)
        try await run.run(samples: self.samples) { Console.line($0) }
        run.tally.count("changes", by: plan.steps.count)
        run.tally.count("pushes", by: Int(run.journal.delivered))
        let (differences, explained) = run.tally.differences
        for (name, number) in run.tally.counts.sorted(by: { $0.key < $1.key }) {
            Console.line("count \(name) \(number)")
        }
        for difference in explained { Console.line("difference \(difference)") }
        Console.line("count differences \(differences)")
        guard differences == 0 else { throw ExitCode(1) }
    }
}
