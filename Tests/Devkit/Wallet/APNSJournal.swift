import Foundation
import Model
import Synchronization

/// The simulator's journal of deliveries, read by one long poll and distributed to the subscribers of push tokens.
///
/// Bounded: a subscriber has at most one push outstanding, since all pushes mean the same ("something changed"). One
/// time is kept for each token that ever subscribed.
final class APNSJournal: Sendable {
    /// A push as received.
    struct Delivery: Sendable {
        let sequence: Int64
        let topic: String
        let arrival: ContinuousClock.Instant
    }

    private struct State {
        var subscribers: [String: AsyncStream<Delivery>.Continuation] = [:]
        var last: Int64 = 0
        var delivered: Int64 = 0
        var refused: Int64 = 0
        var gaps = 0
        /// Times of the last accepted notification of each token, milliseconds since 1970.
        var lastDeliveries: [String: Int64] = [:]
        var missingUntilEpochMilliseconds: Int64 = 0
        var lastArrival = ContinuousClock.now
    }

    private let admin: String
    private let http: HTTPClient
    private let state = Mutex(State())

    /// - Parameter admin: `APNS_ADMIN_URL`, the base of `GET /deliveries`.
    init(admin: String, http: HTTPClient) {
        self.admin = admin.hasSuffix("/") ? String(admin.dropLast()) : admin
        self.http = http
    }

    /// The number of pushes delivered with 200 since `run` began.
    var delivered: Int64 { self.state.withLock(\.delivered) }
    /// The number of pushes that the simulator refused since `run` began.
    var refused: Int64 { self.state.withLock(\.refused) }
    /// The number of times that the simulator was down. Its last deliveries before that may not have been read.
    var gaps: Int { self.state.withLock(\.gaps) }
    /// The time until which deliveries may be missing, milliseconds since 1970: the simulator was down, and its last
    /// accepted notifications before that may not have been read. 0: it never was.
    var missingUntilEpochMilliseconds: Int64 { self.state.withLock(\.missingUntilEpochMilliseconds) }
    /// Returns the time when the simulator received the last accepted notification for a token, milliseconds since
    /// 1970; 0 if there was none, nil if the token never subscribed.
    func lastDelivery(to pushToken: String) -> Int64? { self.state.withLock { $0.lastDeliveries[pushToken] } }
    /// Time since the last push.
    var quietFor: Duration { .now - self.state.withLock(\.lastArrival) }

    /// Returns the pushes to a token from this call on. The stream ends with `unsubscribe` or `finish`.
    func subscribe(_ pushToken: String) -> AsyncStream<Delivery> {
        let (stream, continuation) = AsyncStream.makeStream(of: Delivery.self, bufferingPolicy: .bufferingNewest(1))
        self.state.withLock { state in
            state.subscribers[pushToken] = continuation
            state.lastDeliveries[pushToken] = state.lastDeliveries[pushToken] ?? 0
        }
        return stream
    }

    /// Ends the stream of a token.
    func unsubscribe(_ pushToken: String) {
        self.state.withLock { $0.subscribers.removeValue(forKey: pushToken) }?.finish()
    }

    /// Ends every stream.
    func finish() {
        let all = self.state.withLock { state in
            defer { state.subscribers = [:] }
            return Array(state.subscribers.values)
        }
        for continuation in all { continuation.finish() }
    }

    /// Skips the existing entries of the journal. Call it before the first change is published.
    func start() async throws(ToolError) {
        // An index beyond the end is answered immediately with the journal's last number.
        let page = try await self.page(after: Int64.max, waitSeconds: 0)
        self.state.withLock { $0.last = page.last }
    }

    /// Reads the journal until the task is cancelled. If the simulator is down for a moment, it retries.
    func run() async throws {
        var failures = 0
        while !Task.isCancelled {
            do {
                let after = self.state.withLock(\.last)
                let page = try await self.page(after: after, waitSeconds: 10)
                if failures > 0 {
                    self.state.withLock { state in
                        state.gaps += 1
                        state.missingUntilEpochMilliseconds = Int64(Date().timeIntervalSince1970 * 1000)
                    }
                }
                failures = 0
                // The numbers start over after the simulator was restarted.
                if page.last < after { self.state.withLock { $0.last = 0 } }
                self.hand(out: page)
            } catch {
                failures += 1
                guard failures < 60 else { throw error }
                try await Task.sleep(for: .milliseconds(500))
            }
        }
    }

    private struct Page {
        var deliveries: [(sequence: Int64, token: String, topic: String, status: Int64, received: Int64)] = []
        var last: Int64 = 0
    }

    private func page(after: Int64, waitSeconds: Int) async throws(ToolError) -> Page {
        let url = "\(self.admin)/deliveries?after=\(after)&wait=\(waitSeconds)"
        let response = try await self.http.send(
            HTTPRequest(url: url), within: .seconds(waitSeconds + 15))
        guard response.status == 200, let object = (try? JSON(parsing: response.body))?.object,
            let deliveries = object["deliveries"]?.array
        else { throw ToolError(.protocol, "reading the journal of pushes: status \(response.status)") }
        var page = Page()
        for delivery in deliveries {
            guard let members = delivery.object, let sequence = members["sequence"]?.integer,
                let token = members["token"]?.string
            else { throw ToolError(.protocol, "reading the journal of pushes: a delivery has no sequence or token") }
            page.deliveries.append(
                (
                    sequence, token, members["topic"]?.string ?? "", members["status"]?.integer ?? 0,
                    members["receivedEpochMilliseconds"]?.integer ?? 0
                ))
        }
        page.last = object["last"]?.integer ?? page.deliveries.last?.sequence ?? 0
        return page
    }

    private func hand(out page: Page) {
        guard !page.deliveries.isEmpty else { return }
        let now = ContinuousClock.now
        let targets = self.state.withLock { state in
            var targets: [(AsyncStream<Delivery>.Continuation, Delivery)] = []
            for delivery in page.deliveries where delivery.sequence > state.last {
                state.last = delivery.sequence
                if delivery.status == 200 { state.delivered += 1 } else { state.refused += 1 }
                if delivery.status == 200, let last = state.lastDeliveries[delivery.token] {
                    state.lastDeliveries[delivery.token] = max(last, delivery.received)
                }
                guard delivery.status == 200, let target = state.subscribers[delivery.token] else { continue }
                targets.append((target, Delivery(sequence: delivery.sequence, topic: delivery.topic, arrival: now)))
            }
            state.lastArrival = now
            return targets
        }
        for (continuation, delivery) in targets { continuation.yield(delivery) }
    }
}
