import ArgumentParser
import Foundation
import Kafka
import Model

/// `waybill-dev replay`: sends a stream of orders through a whole stack, then compares all results.
struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract:
            "Sends a table of orders through a stack as changes, then checks every package, device and dead letter.",
        discussion: """
            Exit code 1 if any result differs from the table. The table has the columns of the Brazilian \
            E-Commerce Public Dataset by Olist (orders); without --orders a stream of the same form is generated.
            """)

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Option(help: "The table, CSV.") var orders: String?
    @Option(help: "Number of orders to generate without a table.") var generate = 5000
    @Option(help: "Changes per second; 0: as fast as the system accepts them.") var rate = 0
    @Option(help: "Simulated devices, each following one order.") var devices = 500
    @Option(help: "Packages to verify with the openssl program.") var samples = 200
    @Option(help: "Broken changes to mix in.") var broken = 0
    @Option(help: "Seed of all random choices.") var seed: UInt64 = 1

    func validate() throws {
        guard self.rate >= 0, self.devices >= 0, self.samples >= 0, self.broken >= 0, self.generate > 0 else {
            throw ValidationError("numbers must not be negative")
        }
    }

    func run() async throws {
        let orders: [OlistOrder]
        if let path = self.orders {
            orders = try OlistTable.parse(String(decoding: readFile(path), as: UTF8.self))
        } else {
            orders = OlistTable.generate(self.generate, seed: self.seed)
        }
        let stack = try StackEnvironment(file: self.stack)
        let plan = ReplayPlan(orders, orderType: stack.orderType, broken: self.broken, seed: self.seed)
        Console.line("\(orders.count) orders, \(plan.changeCount) changes, \(plan.brokenCount) broken ones")
        let run = try ReplayRun(stack: stack, plan: plan, rate: self.rate, devices: self.devices, seed: self.seed)
        let report = try await run.run(samples: self.samples)
        for line in report.lines { Console.line(line) }
        guard report.differences.isEmpty else { throw ExitCode(1) }
    }
}
