import Foundation
import Model
import Synchronization

/// The sessions of the playground, their orders and transcripts, in memory.
///
/// Bounded: 100 sessions, with 20 orders and 500 entries each. A new session beyond that ends the longest idle one.
final class PlaygroundSessions: Sendable {
    static let sessionLimit = 100
    static let orderLimit = 20
    static let entryLimit = 500
    static let idleSeconds = 7200.0

    /// An order of a session.
    struct Order: Sendable {
        let identifier: String
        /// A receipt gets no updates.
        let isReceipt: Bool
        var document: JSON
        /// The packager's version; 0 until its first record arrives.
        var version: Int64 = 0
        var updatedAtEpochSeconds: Int64 = 0
        var isRemoved = false
        /// The reason given by the order's last dead letter.
        var fault: String?
    }

    private struct Session {
        var orders: [String: Order] = [:]
        /// Identifiers that were sent to the page but belong to no order yet, by the block of the page.
        var prepared: [Int: String] = [:]
        var entries: [PlaygroundEntry] = []
        var count = 0
        var lastUse = Date()
        var updates: [Date] = []
        var waiters: [UUID: AsyncStream<Void>.Continuation] = [:]
        let device: PlaygroundDevice

        mutating func wake() {
            for waiter in self.waiters.values { waiter.yield() }
        }
    }

    private let sessions = Mutex<[String: Session]>([:])

    /// Opens a session.
    /// - Returns: the orders of the sessions that were ended to make room.
    func open(_ name: String, device: PlaygroundDevice) -> [String] {
        let ended = self.sessions.withLock { sessions in
            var ended = sessions.filter { Date().timeIntervalSince($0.value.lastUse) > Self.idleSeconds }.map(\.key)
            if sessions.count - ended.count >= Self.sessionLimit,
                let oldest = sessions.min(by: { $0.value.lastUse < $1.value.lastUse })?.key
            {
                ended.append(oldest)
            }
            sessions[name] = Session(device: device)
            return ended
        }
        return ended.flatMap { self.close($0) }
    }

    /// Ends a session.
    /// - Returns: the identifiers of its remaining orders.
    func close(_ name: String) -> [String] {
        guard let session = self.sessions.withLock({ $0.removeValue(forKey: name) }) else { return [] }
        for waiter in session.waiters.values { waiter.finish() }
        session.device.end()
        return session.orders.values.filter { !$0.isRemoved }.map(\.identifier)
    }

    /// Ends all sessions, and returns the identifiers of their remaining orders.
    func closeAll() -> [String] { self.sessions.withLock { Array($0.keys) }.flatMap { self.close($0) } }

    /// Returns true if the session exists, and records that it is in use.
    func touch(_ name: String) -> Bool {
        self.sessions.withLock { sessions in
            sessions[name]?.lastUse = Date()
            return sessions[name] != nil
        }
    }

    /// Returns the simulated device of a session.
    func device(of name: String) -> PlaygroundDevice? { self.sessions.withLock { $0[name]?.device } }

    /// Returns true if a session may publish a change now, and counts it: at most two per second.
    func mayUpdate(_ name: String) -> Bool {
        self.sessions.withLock { sessions in
            let now = Date()
            let recent = (sessions[name]?.updates ?? []).filter { now.timeIntervalSince($0) < 1 }
            sessions[name]?.updates = recent + (recent.count < 2 ? [now] : [])
            return recent.count < 2
        }
    }

    /// Returns the identifier of the next order of a block, the same until it is used.
    func nextIdentifier(of name: String, at index: Int) -> String? {
        self.sessions.withLock { sessions in
            guard let session = sessions[name] else { return nil }
            let identifier = session.prepared[index] ?? Self.identifier()
            sessions[name]?.prepared[index] = identifier
            return identifier
        }
    }

    /// Returns `playground-` and 12 random characters of base32.
    private static func identifier() -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567")
        return "playground-" + String((0..<12).map { _ in letters[Int.random(in: 0..<32)] })
    }

    /// Adds a new order under an identifier that was prepared for the session.
    /// - Returns: false if the identifier was not prepared, or the session has too many orders.
    func add(_ order: Order, to name: String) -> Bool {
        self.sessions.withLock { sessions in
            guard let session = sessions[name],
                let index = session.prepared.first(where: { $0.value == order.identifier })?.key,
                session.orders.count < Self.orderLimit
            else { return false }
            sessions[name]?.prepared[index] = nil
            sessions[name]?.orders[order.identifier] = order
            return true
        }
    }

    /// Removes an order that could not be published.
    func drop(_ identifier: String, of name: String) {
        self.sessions.withLock { _ = $0[name]?.orders.removeValue(forKey: identifier) }
    }

    func order(_ identifier: String, of name: String) -> Order? {
        self.sessions.withLock { $0[name]?.orders[identifier] }
    }

    func orders(of name: String) -> [Order] {
        self.sessions.withLock { sessions in
            (sessions[name]?.orders.values).map { $0.sorted { $0.updatedAtEpochSeconds > $1.updatedAtEpochSeconds } }
                ?? []
        }
    }

    /// Changes an order of any session.
    /// - Returns: the session that it belongs to; nil if there is none.
    @discardableResult
    func change(_ identifier: String, _ body: (inout Order) -> Void) -> String? {
        self.sessions.withLock { sessions in
            for (name, session) in sessions {
                guard var order = session.orders[identifier] else { continue }
                body(&order)
                sessions[name]?.orders[identifier] = order
                sessions[name]?.wake()
                return name
            }
            return nil
        }
    }

    /// Adds an entry to a transcript.
    func note(_ entry: PlaygroundEntry, in name: String) {
        self.sessions.withLock { sessions in
            guard sessions[name] != nil else { return }
            var entry = entry
            sessions[name]?.count += 1
            entry.number = sessions[name]?.count ?? 0
            sessions[name]?.entries.append(entry)
            if sessions[name]?.entries.count ?? 0 > Self.entryLimit { sessions[name]?.entries.removeFirst() }
            sessions[name]?.wake()
        }
    }

    func entries(of name: String, after: Int) -> [PlaygroundEntry] {
        self.sessions.withLock { ($0[name]?.entries ?? []).filter { $0.number > after } }
    }

    /// Waits for the next event in a session, at most `limit`; returns immediately if `isDone` already holds.
    func wait(for name: String, within limit: Duration, until isDone: @Sendable () -> Bool) async {
        let number = UUID()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.sessions.withLock { $0[name]?.waiters[number] = continuation }
        defer { _ = self.sessions.withLock { $0[name]?.waiters.removeValue(forKey: number) } }
        // Checked after the subscription, so that no event is missed between the two.
        if isDone() { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in stream { return } }
            group.addTask { try? await Task.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
    }
}
