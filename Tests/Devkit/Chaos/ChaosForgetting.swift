import Foundation
import Kafka
import Model
import Synchronization

/// Forgets random orders as an operator does: no more changes of them are published, then the packager's own command
/// runs until it says that it is done. Some of them are made anew after that.
///
/// Thread: any.
final class ChaosForgetting: Sendable {
    /// The state of an order that was chosen.
    private enum Life {
        /// It is being forgotten, is gone, or is not there again yet.
        case ending, gone, returning
        /// It was made anew, and served since.
        case anew
    }

    /// The time that the packagers have in one run of the command, and that it has as a whole.
    private static let wait = 30
    private static let deadline = Duration.seconds(50)
    /// Orders of one command.
    private static let most = 100

    private let lives = Mutex<[String: Life]>([:])
    private let tally: ChaosTally

    init(tally: ChaosTally) { self.tally = tally }

    /// The identifiers of the orders that are gone.
    var gone: Set<String> {
        self.lives.withLock { Set($0.filter { $0.value == .gone }.keys) }
    }

    /// True for an order that may be unknown to the gateway: it is not there, or Redis fell back to the time before it
    /// was made anew.
    func allowsUnauthorized(_ order: String) -> Bool {
        switch self.lives.withLock({ $0[order] }) {
        case nil: false
        case .ending, .gone, .returning: true
        case .anew: self.tally.hasFallen
        }
    }

    /// Forgets some orders that are there, each once, and makes some of them anew.
    func forget(_ count: Int, of run: ChaosRun) async {
        let orders = run.publisher.someOrders(count).filter { order in
            self.lives.withLock { lives in
                let identifier = run.plan.orders[order].identifier
                guard lives[identifier] == nil else { return false }
                lives[identifier] = .ending
                return true
            }
        }
        guard !orders.isEmpty else { return }
        do {
            try await run.publisher.stop(orders)
            for order in orders { await run.leave(order) }
            try await self.command(orders, of: run)
            self.set(.gone, orders, of: run)
            self.tally.count("forgotten.orders", by: orders.count)
            for order in orders where Int.random(in: 0..<3) == 0 { try await self.makeAnew(order, of: run) }
        } catch {
            self.tally.differ("forgetting \(orders.count) orders: \(error)")
        }
    }

    /// Forgets orders once more.
    func end(_ orders: [Int], of run: ChaosRun) async {
        do {
            for start in stride(from: 0, to: orders.count, by: Self.most) {
                try await self.command(Array(orders[start..<min(start + Self.most, orders.count)]), of: run)
            }
        } catch {
            self.tally.differ("forgetting \(orders.count) orders again: \(error)")
        }
    }

    private func set(_ life: Life, _ orders: [Int], of run: ChaosRun) {
        self.lives.withLock { lives in
            for order in orders { lives[run.plan.orders[order].identifier] = life }
        }
    }

    /// Runs `waybill-packager forget` with the settings of the stack's packager until it is done.
    private func command(_ orders: [Int], of run: ChaosRun) async throws {
        let keys = orders.map { "--order \(run.stack.orderType)/\(run.plan.orders[$0].identifier)" }
        let end = ContinuousClock.now + run.patience
        while true {
            let outcome = try await run.publisher.whileNotPaused {
                // Read each time: the addresses change when everything moves to another Kafka.
                let path = "\(run.stack.folder)/run/packager.command"
                let packager = String(decoding: try readFile(path), as: UTF8.self)
                    .trimmingCharacters(in: .whitespacesAndNewlines)
                let line = "\(packager) forget --wait \(Self.wait) \(keys.joined(separator: " "))"
                return try? await RunProgram.run(["bash", "-c", line], within: Self.deadline)
            }
            if outcome?.status == 0 { return }
            self.tally.count("forgotten.again")
            guard ContinuousClock.now < end else {
                throw ToolError(.program, "waybill-packager forget: \(outcome?.output.suffix(1000) ?? "no end")")
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Publishes an order that is gone, and gives it to its devices again once it is served.
    private func makeAnew(_ order: Int, of run: ChaosRun) async throws {
        self.set(.returning, [order], of: run)
        let end = ContinuousClock.now + run.patience
        let change = run.plan.anew(order)
        while true {
            let isThere = try await run.publisher.whileNotPaused {
                let producer = try KafkaProducer(run.stack.kafkaConfiguration())
                let outcome = await producer.produce([change])
                await producer.close()
                return outcome.allSatisfy { (try? $0.get()) != nil }
            }
            if isThere { break }
            guard ContinuousClock.now < end else { throw ToolError(.timeout, "publishing an order anew") }
        }
        let url = "\(run.stack.gateway)/v1/orders/\(run.stack.orderType)/\(run.plan.orders[order].identifier)"
        let request = HTTPRequest(url: url, headers: [("authorization", "AppleOrder \(try run.token(order))")])
        while (try? await run.http.send(request).status) != 200 {
            guard ContinuousClock.now < end else {
                throw ToolError(.timeout, "an order that was made anew is not served: \(url)")
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        self.set(.anew, [order], of: run)
        self.tally.count("forgotten.made_anew")
        await run.handOver(order)
    }
}
