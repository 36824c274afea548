import Foundation

/// A guided trial with a real device: its steps, what the requests of a step answer, and what follows from that.
///
/// Pure: `DeviceTrialRun` has the clock, the proxy and the person. Source: Wallet Orders §10, the open questions
enum DeviceTrial {
    /// A request of a device as the proxy saw it, without identifiers, tokens and push tokens.
    struct Seen: Hashable, Sendable {
        enum Kind: String, Sendable {
            case link, fetch, list, registration, log
            case end = "end of a registration"
            case other = "another request"
        }

        let kind: Kind
        /// The device's number, by its first request with an identifier; nil for a request without one.
        let device: Int?
        let status: Int
        /// Since the trial began.
        let at: Duration
        let bytes: Int
        /// The names of conditional fields that the device sent.
        let conditions: [String]
        let agent: String

        var line: String {
            let device = self.device.map { "device \($0)" } ?? "-"
            let conditions = self.conditions.isEmpty ? "" : ", with \(self.conditions.joined(separator: ", "))"
            return "\(DeviceTrial.seconds(self.at))\t\(device)\t\(self.kind.rawValue)\t\(self.status), "
                + "\(self.bytes) bytes\(conditions)"
        }
    }

    /// The event that a step waits for.
    enum Goal: Hashable, Sendable {
        case registration(device: Int)
        case list
        case conditionalFetch
        /// As many fetches.
        case fetches(Int)
        /// A package of at least as many bytes, and a registration after it.
        case largePackage(bytes: Int)
        case lists(devices: Int)
        case end
    }

    struct Step: Hashable, Sendable {
        let name: String
        let instruction: String
        /// Requests for a package that the proxy refuses with 503.
        var refusals = 0
        /// True if the trial changes the order when the step begins.
        var changesOrder = false
        let goal: Goal
        /// The push options that are tried.
        var push: String?
    }

    static let steps: [Step] = [
        Step(
            name: "install", instruction: "On the iPhone, open the link of the order in Safari, and add the order.",
            goal: .registration(device: 1)),
        push("authentication certificate, type background, priority 5"),
        push("authentication certificate, type alert, priority 10"),
        push("authentication certificate, type background, priority 1"),
        push("authentication token, type background, priority 5"),
        push("authentication token, type alert, priority 10"),
        Step(
            name: "conditions", instruction: "Open the order in Wallet, and pull down until it refreshes.",
            goal: .conditionalFetch),
        Step(
            name: "retries",
            instruction:
                "Leave the device alone: its next two fetches get 503 with Retry-After: 5. This takes minutes.",
            refusals: 2, changesOrder: true, goal: .fetches(3)),
        Step(
            name: "size",
            instruction: "Publish an order of 4.5 to 5 MB, with a receipt from assets/, and add it by its link.",
            goal: .largePackage(bytes: 4_500_000)),
        Step(
            name: "second device", instruction: "Add the order on a second device of the same account, by its link.",
            goal: .registration(device: 2)),
        Step(
            name: "both devices", instruction: "Leave both devices alone.", changesOrder: true,
            goal: .lists(devices: 2)),
        Step(name: "removal", instruction: "On the first device, delete the order in Wallet.", goal: .end),
    ]

    private static func push(_ options: String) -> Step {
        Step(
            name: "push",
            instruction: "Give the brand these push options, and wait until the pusher has them: \(options).",
            changesOrder: true, goal: .list, push: options)
    }

    static func isReached(_ goal: Goal, _ seen: ArraySlice<Seen>) -> Bool {
        switch goal {
        case .registration(let device):
            seen.contains { $0.kind == .registration && $0.device == device && $0.status < 300 }
        case .list: seen.contains { $0.kind == .list }
        case .conditionalFetch: seen.contains { $0.kind == .fetch && !$0.conditions.isEmpty }
        case .fetches(let count): seen.count { $0.kind == .fetch } >= count
        case .largePackage(let bytes):
            seen.firstIndex { $0.bytes >= bytes }.map { seen[$0...].contains { $0.kind == .registration } } ?? false
        case .lists(let devices): Set(seen.filter { $0.kind == .list }.compactMap(\.device)).count >= devices
        case .end: seen.contains { $0.kind == .end }
        }
    }

    /// The end of a step.
    enum Ending: Hashable, Sendable { case reached, waited, skipped }

    /// The result of a step.
    struct Result: Hashable, Sendable {
        let step: Step
        let ending: Ending
        let began: Duration
        let seen: [Seen]

        /// The answer, for people.
        var answer: String {
            guard self.ending != .skipped else { return "skipped" }
            let fetches = self.seen.filter { $0.kind == .fetch }
            switch self.step.goal {
            case .conditionalFetch:
                let sent = Set(self.seen.flatMap(\.conditions)).sorted()
                return sent.isEmpty ? "no conditional field" : "the device sends \(sent.joined(separator: " and "))"
            case .fetches:
                let times = fetches.map { DeviceTrial.seconds($0.at - self.began) }
                return times.isEmpty ? "no fetch" : "fetches after \(times.joined(separator: ", "))"
            case .lists(let devices):
                let lists = self.seen.filter { $0.kind == .list }
                let found = Dictionary(lists.compactMap { one in one.device.map { ($0, one.at) } }) { first, _ in first
                }
                let times = found.sorted { $0.key < $1.key }.map { device, at in
                    "device \(device) after \(DeviceTrial.seconds(at - self.began))"
                }
                let asked = "\(found.count) of \(devices) devices asked"
                return times.isEmpty ? asked : "\(asked): \(times.joined(separator: ", "))"
            default:
                guard self.ending == .reached, let last = self.seen.last else { return "nothing came" }
                return "after \(DeviceTrial.seconds(last.at - self.began)), with \(last.status)"
            }
        }

        /// The time from the change to the device's question; nil if none came.
        fileprivate var arrival: Duration? {
            self.ending == .reached ? self.seen.first { $0.kind == .list }.map { $0.at - self.began } : nil
        }
    }

    /// Returns the report: the table of answers, the settings that follow, and the requests.
    static func report(_ results: [Result], _ seen: [Seen], agents: [String]) -> String {
        var lines = ["# Device trial", "", "| step | tried | answer |", "|---|---|---|"]
        for result in results {
            lines.append("| \(result.step.name) | \(result.step.push ?? result.step.instruction) | \(result.answer) |")
        }
        let arrivals = results.compactMap { result in
            result.step.push.flatMap { push in result.arrival.map { (push: push, time: $0) } }
        }
        lines += ["", "## What follows", ""]
        if let best = arrivals.min(by: { $0.time < $1.time }) {
            lines.append(
                "- `push` in `brand.json`: \(best.push), which arrived first, after \(Self.seconds(best.time)).")
        } else {
            lines.append(
                "- No push arrived: look at the pusher's log, and whether the topic and the environment are right.")
        }
        let fields = Set(seen.flatMap(\.conditions)).sorted().joined(separator: ", ")
        lines.append("- Conditional fields of this device: \(fields.isEmpty ? "none" : fields).")
        lines.append("- Agents: \(agents.isEmpty ? "none" : agents.joined(separator: "; ")).")
        lines += ["", "## Requests", "", "```"] + seen.map(\.line) + ["```", ""]
        return lines.joined(separator: "\n")
    }

    static func seconds(_ duration: Duration) -> String {
        let tenths = duration.microseconds / 100_000
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
