import Kafka

/// The verdict on a service's readiness, as far as Kafka is concerned. No clock.
public struct KafkaStanding {
    /// The extent to which a service depends on Kafka.
    public enum Dependence: Sendable {
        /// It does nothing without: it is unready as long as Kafka keeps it from its work.
        case whole
        /// It does most without: what Kafka refuses keeps it from becoming ready, and nothing makes it unready later. A
        /// Kafka that is away keeps it from nothing.
        case part
    }

    /// The facts at a moment.
    struct Look {
        /// nil: no broker answers.
        var faults: [KafkaFault]?
        /// The reason for that.
        var silence = ""
        /// Refusals of brokers that stand.
        var refusals: [String] = []
    }

    enum Verdict: Equatable {
        case ready
        case unready(String)
        /// Readiness stays as it is.
        case open
    }

    /// A service that depends in part waits so long for a refusal, since those come with the first try.
    static let settling = Duration.seconds(1)
    /// And so long for a first answer.
    static let patience = Duration.seconds(5)

    let dependence: Dependence
    private var faults: [KafkaFault]?
    private var isSettled = false

    init(_ dependence: Dependence) { self.dependence = dependence }

    /// - Parameter age: since the service started.
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
