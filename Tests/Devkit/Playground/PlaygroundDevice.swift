import Foundation
import Model
import Synchronization

/// The simulated device of a session. As Wallet does, it takes order details, fetches, registers and follows pushes.
///
/// Bounded: handles one order or push at a time; at most 100 wait, and further ones are dropped.
final class PlaygroundDevice: Sendable {
    private enum Work: Sendable {
        case details(order: String, token: String)
        case push(topic: String)
        case unregistration(order: String)

        /// The order that it is about; nil for a push, which does not tell.
        var order: String? {
            switch self {
            case .details(let order, _), .unregistration(let order): order
            case .push: nil
            }
        }
    }

    /// The most times that the device waits half a minute for the first package of an order.
    private static let patience = 5

    private let wallet: WalletDevice
    private let journal: APNSJournal
    private let note: @Sendable (PlaygroundEntry) -> Void
    private let work: AsyncStream<Work>
    private let continuation: AsyncStream<Work>.Continuation
    private let registered = Mutex<Set<String>>([])
    /// The orders that the device was handed, each with the number of times that it waited for a package in vain.
    private let handed = Mutex<[String: Int]>([:])

    init(wallet: WalletDevice, journal: APNSJournal, note: @escaping @Sendable (PlaygroundEntry) -> Void) {
        self.wallet = wallet
        self.journal = journal
        self.note = note
        (self.work, self.continuation) = AsyncStream.makeStream(of: Work.self, bufferingPolicy: .bufferingOldest(100))
    }

    /// Takes the order details that the browser hands over after a payment.
    func take(order: String, token: String) {
        self.handed.withLock { $0[order] = 0 }
        self.continuation.yield(.details(order: order, token: token))
    }

    /// Takes back the registration for an order, as when a customer turns its updates off.
    func unregister(from order: String) { self.continuation.yield(.unregistration(order: order)) }

    /// Ends `run`.
    func end() {
        self.continuation.finish()
        self.journal.unsubscribe(self.wallet.pushToken)
    }

    /// The orders that the device has registered for.
    var registrations: Set<String> { self.registered.withLock { $0 } }

    /// Handles order details and pushes until `end`.
    func run() async {
        let pushes = self.journal.subscribe(self.wallet.pushToken)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await push in pushes { self.continuation.yield(.push(topic: push.topic)) }
            }
            for await work in self.work {
                do {
                    switch work {
                    case .details(let order, let token): try await self.add(order, token)
                    case .push(let topic): try await self.follow(topic)
                    case .unregistration(let order):
                        try await self.wallet.unregister(order)
                        self.registered.withLock { _ = $0.remove(order) }
                        self.note(
                            PlaygroundEntry(from: "device", to: "device", title: "Updates are off", order: order))
                    }
                } catch {
                    let title = "Failed: \(error)"
                    self.note(PlaygroundEntry(from: "device", to: "gateway", title: title, order: work.order))
                    if case .details(let order, _) = work { self.failed(order, error, work) }
                }
            }
            group.cancelAll()
        }
    }

    /// Waits for a package again if it was only late, after what else the device has to do.
    private func failed(_ order: String, _ error: any Error, _ work: Work) {
        let isLate = (error as? ToolError)?.code == .timeout
        let count = self.handed.withLock { handed in
            handed[order, default: 0] += isLate ? 1 : Self.patience
            return handed[order, default: 0]
        }
        if count < Self.patience { self.continuation.yield(work) }
    }

    private func add(_ order: String, _ token: String) async throws {
        await self.wallet.add(order: order, token: token)
        let report = try await self.wallet.firstFetch(order, within: .seconds(30))
        self.note(self.verified(report, order, "First version in Wallet"))
        guard report.order?.object?["webServiceURL"] != nil else {
            let title = "A receipt: it names no web service, so there is nothing to register for"
            self.note(PlaygroundEntry(from: "device", to: "device", title: title, order: order))
            return
        }
        _ = try await self.wallet.register(order)
        self.registered.withLock { _ = $0.insert(order) }
        // A change between the fetch and the registration may come without a push.
        if case .version(let newer) = try await self.wallet.fetch(order) {
            self.note(self.verified(newer, order, "New version in Wallet"))
        }
    }

    private func follow(_ topic: String) async throws {
        var entry = PlaygroundEntry(from: "APNs", to: "device", title: "Pushed: something changed")
        entry.detail = [
            "apns-topic": .string(topic), "body": "empty",
            "note": "Played by the simulator of APNs, over HTTP/2 and TLS",
        ]
        do {
            let listed = try await self.wallet.react()
            entry.orders = listed.map(\.order)
            self.note(entry)
            for case (let order, let report?) in listed {
                self.note(self.verified(report, order, "New version in Wallet"))
            }
        } catch {
            self.note(entry)
            throw error
        }
    }

    private func verified(_ report: PackageReport, _ order: String, _ title: String) -> PlaygroundEntry {
        var entry = PlaygroundEntry(from: "device", to: "device", title: title, order: order)
        entry.detail = [
            "verified": "archive, manifest with SHA-256 digests, certificates and signature",
            "updatedAt": report.order?.object?["updatedAt"] ?? .null,
            "files": .array(report.files.map(\.json)),
            "signedAt": report.signingEpochSeconds.map { .string(RFC3339.format(epochSeconds: $0)) } ?? .null,
        ]
        return entry
    }

    /// Returns the content of a file in the newest package of an order; nil if there is none.
    ///
    /// A document in the language of a folder, such as `en.lproj`, stands in for one at the package's root.
    func file(_ name: String, of order: String) async -> [UInt8]? {
        let entries = ZipReader(await self.wallet.package(order)).entries
        let found = entries.first { $0.name == name } ?? entries.first { $0.name.hasSuffix(".lproj/\(name)") }
        return found?.content
    }

    /// Returns the orders that the device shows: those that wait for their package, then the others, newest first.
    func shown() async -> JSON {
        var orders: [(updated: String, json: JSON)] = []
        for (identifier, count) in self.handed.withLock({ $0 }) {
            guard let order = await self.wallet.order(identifier)?.object else {
                let waits: JSON = [
                    "orderIdentifier": .string(identifier), "isAwaited": .bool(count < Self.patience),
                ]
                orders.append(("~" + identifier, waits))
                continue
            }
            var shown = JSONObject()
            for name in [
                "orderIdentifier", "orderNumber", "status", "statusDescription", "updatedAt", "barcode",
                "fulfillments", "lineItems", "returns",
            ] { shown[name] = order[name] }
            let payment = order["payment"]?.object
            shown["merchant"] = order["merchant"]?.object?["displayName"]
            shown["total"] = payment?["total"]
            shown["transactions"] = payment?["transactions"]
            if let report = await self.wallet.report(identifier) {
                shown["files"] = .array(report.files.map(\.json))
                shown["signedAt"] = report.signingEpochSeconds.map { .string(RFC3339.format(epochSeconds: $0)) }
            }
            shown["isRegistered"] = .bool(self.registrations.contains(identifier))
            orders.append((order["updatedAt"]?.string ?? "", .object(shown)))
        }
        return .array(orders.sorted { $0.updated > $1.updated }.map(\.json))
    }
}
