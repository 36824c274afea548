import ArgumentParser
import Foundation
import Model

/// `waybill-dev wallet`: one device that follows one order.
struct WalletCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wallet", abstract: "Acts as a device: fetches an order, registers, follows pushes and verifies.")

    @Option(help: "Base URL of the gateway.") var gateway: String
    @Option(help: "Order type identifier.") var orderType: String
    @Option(help: "Order identifier.") var order: String
    @Option(help: "Authentication token of the order.") var token: String?
    @Option(help: "File with the token secrets, to derive the token from.") var secrets: String?
    @Option(help: "Admin URL of the APNs simulator.") var apnsAdmin: String
    @Option(help: "PEM file with the root used in place of Apple's.") var roots: String
    @Option(help: "End with success when the order has this status.") var untilStatus: String?
    @Option(help: "End with success after this many versions.") var versions: Int?
    @Option(help: "End after this many seconds: with success unless a status or versions were requested.")
    var seconds: Int = 60

    func run() async throws {
        let key = OrderKey(orderType: try OrderTypeIdentifier(self.orderType), order: try OrderIdentifier(self.order))
        let token: String
        if let given = self.token {
            token = given
        } else if let secrets = self.secrets {
            token = try DerivedTokens(file: secrets).token(for: key)
        } else {
            throw ValidationError("--token or --secrets is needed")
        }
        let http = try HTTPClient()
        let journal = APNSJournal(admin: self.apnsAdmin, http: http)
        let device = WalletDevice(
            gateway: self.gateway, orderType: key.orderType, http: http,
            verifier: try PackageVerifier(rootsPEM: readFile(self.roots)))
        try await journal.start()
        let isDone = try await withThrowingTaskGroup(of: Bool?.self) { group in
            group.addTask {
                try await journal.run()
                return nil
            }
            group.addTask { try await self.follow(key.order.rawValue, token, device, journal) }
            group.addTask {
                try await Task.sleep(for: .seconds(self.seconds))
                guard self.untilStatus == nil, self.versions == nil else { return false }
                Console.line("the device is off: it follows its order for \(self.seconds) s")
                return true
            }
            defer { group.cancelAll() }

            while let result = try await group.next() { if let result { return result } }
            return false
        }
        journal.finish()
        await http.close()
        guard isDone else {
            Console.line("gave up after \(self.seconds) s")
            throw ExitCode(1)
        }
    }

    private func follow(
        _ order: String, _ token: String, _ device: WalletDevice, _ journal: APNSJournal
    ) async throws -> Bool {
        let begin = ContinuousClock.now
        func say(_ text: String) { Console.line("\(Console.milliseconds(.now - begin))\t\(text)") }
        await device.add(order: order, token: token)
        let pushes = journal.subscribe(device.pushToken)
        var report = try await device.firstFetch(order, within: .seconds(self.seconds))
        say("fetched and verified: \(report.summary), \(Self.state(report))")
        say("registered (\(try await device.register(order) ? 201 : 200))")
        // A change between the fetch and the registration may come without a push.
        if case .version(let newer) = try await device.fetch(order) { report = newer }
        if await self.isEnough(device, order, report) { return true }
        for await push in pushes {
            say("pushed (delivery \(push.sequence), topic \(push.topic))")
            let versions = try await device.react().compactMap { $0.report }
            if versions.isEmpty { say("listed: nothing new, the device has the latest version") }
            for report in versions {
                say("listed, fetched and verified: \(report.summary), \(Self.state(report))")
                if await self.isEnough(device, order, report) { return true }
            }
        }
        return false
    }

    private func isEnough(_ device: WalletDevice, _ order: String, _ report: PackageReport) async -> Bool {
        if let wanted = self.untilStatus, Self.status(report) == wanted { return true }
        if let wanted = self.versions, await device.versions(order) >= wanted { return true }
        return false
    }

    /// Returns the status of the order and of each of its fulfillments, for people.
    private static func state(_ report: PackageReport) -> String {
        let fulfillments = (report.order?.object?["fulfillments"]?.array ?? []).compactMap(\.object)
        return fulfillments.reduce("status \(Self.status(report))") { text, fulfillment in
            let name = fulfillment["fulfillmentIdentifier"]?.string ?? "fulfillment"
            return text + ", \(name) \(fulfillment["status"]?.string ?? "?")"
        }
    }

    private static func status(_ report: PackageReport) -> String {
        report.order?.object?["status"]?.string ?? "?"
    }
}
