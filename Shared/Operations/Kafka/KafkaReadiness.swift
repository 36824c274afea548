import Kafka

/// The verdict on a service's readiness, as far as Kafka is concerned. No clock.
public struct KafkaReadiness {
    /// The extent to which a service depends on Kafka.
    public enum Dependence: Sendable {
        /// It can do nothing without Kafka: it is unready as long as Kafka prevents its work.
        case whole
        /// It can do most of its work without Kafka: a refusal prevents it from becoming ready, and nothing makes it
        /// unready later. An unreachable Kafka prevents nothing.
        case part
    }

    /// The facts at one moment.
    struct Look {
        /// nil if no broker answers.
        var faults: [KafkaFault]?
        /// The reason why no broker answers.
        var silence = ""
        /// The present refusals by brokers.
        var refusals: [String] = []
    }

    enum Verdict: Equatable {
        case ready
        case unready(String)
        /// Readiness remains as it is.
        case open
    }

    /// The time for which a service that depends in part waits for a refusal, since refusals arrive with the first
    /// attempt.
    static let settling = Duration.seconds(1)
    /// The time for which it waits for a first answer.
    static let patience = Duration.seconds(5)

    let dependence: Dependence
    private var faults: [KafkaFault]?
    private var isSettled = false

    init(_ dependence: Dependence) { self.dependence = dependence }

    /// - Parameter age: time since the service started.
    mutating func judge(_ look: Look, age: Duration) -> Verdict {
        if let faults = look.faults { self.faults = faults }
        if self.dependence == .part, self.isSettled { return .open }
        let known = (self.faults ?? []).filter { self.counts($0) }.map(\.text)
        let reasons = known + look.refusals
        if !reasons.isEmpty { return .unready(reasons.joined(separator: "; ")) }
        if self.faults == nil {
            guard self.dependence == .part, age >= Self.patience else {
                return look.silence.isEmpty ? .open : .unready(look.silence)
            }
        } else if self.dependence == .part, age < Self.settling {
            return .open
        }
        self.isSettled = true
        return .ready
    }

    private func counts(_ fault: KafkaFault) -> Bool {
        switch fault.kind {
        case .fatal, .refused: true
        case .passing: self.dependence == .whole
        case .warning: false
        }
    }
}
