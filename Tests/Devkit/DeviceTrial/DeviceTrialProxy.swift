import Foundation
import Synchronization
import TestKit

/// The proxy between a device and a gateway: notes each request without what names or authenticates anybody.
///
/// Bounded: `most` requests are noted, further ones only forwarded.
final class DeviceTrialProxy: Sendable {
    static let most = 10_000

    private struct State {
        var seen: [DeviceTrial.Seen] = []
        /// The devices, numbered by their first request.
        var devices: [String: Int] = [:]
        var agents: Set<String> = []
        /// Requests for a package that are still to be refused.
        var refusals = 0
        var waiting: CheckedContinuation<Void, Never>?
    }

    private let forwarding: PlaygroundForwarding
    private let gateway: String
    private let state = Mutex(State())
    private let start = ContinuousClock.now

    init(gateway: String, http: HTTPClient) {
        self.gateway = gateway.hasSuffix("/") ? String(gateway.dropLast()) : gateway
        self.forwarding = PlaygroundForwarding(checkout: "", gateway: self.gateway, http: http)
    }

    var seen: [DeviceTrial.Seen] { self.state.withLock(\.seen) }
    var agents: [String] { self.state.withLock { $0.agents.sorted() } }
    /// The time since the proxy was made.
    var elapsed: Duration { .now - self.start }

    /// Refuses the next requests for a package with 503.
    func refuse(_ count: Int) { self.state.withLock { $0.refusals = count } }

    func answer(_ request: FakeServer.Request) async -> FakeServer.Response {
        let path = request.path.split(separator: "/").map { $0.removingPercentEncoding ?? "" }
        let parts = path.firstIndex(of: "v1").map { Array(path[($0 + 1)...]) } ?? []
        let kind = Self.kind(request.method, parts)
        let isRefused = self.state.withLock { state in
            guard kind == .fetch, state.refusals > 0 else { return false }
            state.refusals -= 1
            return true
        }
        let answer =
            isRefused
            ? FakeServer.Response(503, headers: [("retry-after", "5")])
            : await self.forwarding.answer(request, from: self.gateway)
        self.note(request, kind, parts, answer)
        return answer
    }

    private static func kind(_ method: String, _ parts: [String]) -> DeviceTrial.Seen.Kind {
        switch (method, parts.first, parts.count) {
        case ("GET", "orders", 3): .fetch
        case ("GET", "orders", 4): .link
        case ("GET", "devices", 4): .list
        case ("POST", "devices", 5): .registration
        case ("DELETE", "devices", 5): .end
        case ("POST", "log", 1): .log
        default: .other
        }
    }

    private func note(
        _ request: FakeServer.Request, _ kind: DeviceTrial.Seen.Kind, _ parts: [String], _ answer: FakeServer.Response
    ) {
        let conditions = ["if-modified-since", "if-none-match"].filter { request.header($0) != nil }
        let agent = request.header("user-agent") ?? ""
        let at = self.elapsed
        let waiting = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.seen.count < Self.most else { return nil }
            var device: Int?
            if parts.first == "devices", parts.count > 1 {
                device = state.devices[parts[1]] ?? state.devices.count + 1
                state.devices[parts[1]] = device
            }
            if kind != .other, !agent.isEmpty { state.agents.insert(String(agent.prefix(200))) }
            state.seen.append(
                DeviceTrial.Seen(
                    kind: kind, device: device, status: answer.status, at: at, bytes: answer.body.count,
                    conditions: conditions, agent: agent))
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// Waits until the requests from a place on reach a goal.
    ///
    /// - Returns: false if they did not within the time.
    func wait(for goal: DeviceTrial.Goal, from place: Int, within limit: Duration) async -> Bool {
        let timer = Task {
            try? await Task.sleep(for: limit)
            self.state.withLock { state in
                defer { state.waiting = nil }
                return state.waiting
            }?.resume()
        }
        defer { timer.cancel() }
        let end = ContinuousClock.now + limit
        while true {
            if DeviceTrial.isReached(goal, self.seen[place...]) { return true }
            guard .now < end else { return false }
            await withCheckedContinuation { continuation in
                let isDone = self.state.withLock { state in
                    guard !DeviceTrial.isReached(goal, state.seen[place...]), .now < end else { return true }
                    state.waiting = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        }
    }
}
