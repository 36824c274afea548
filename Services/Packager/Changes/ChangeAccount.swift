import CoreMetrics
import Logging
import Model
import Operations
import Packaging

/// Counts and logs what became of the changes of orders that are done.
struct ChangeAccount: Sendable {
    let metrics: PackagerMetrics
    let logger: Logger

    func count(_ drafts: [OrderDraft]) {
        for draft in drafts {
            for outcome in draft.result.outcomes {
                switch outcome {
                case .applied: self.metrics.changesApplied.increment()
                case .unchanged: self.metrics.changesUnchanged.increment()
                case .skipped(let reason): self.metrics.changesSkipped[reason]?.increment()
                case .refused: break
                }
            }
            self.metrics.changesConflated.increment(by: draft.conflatedCount)
            if draft.exists {
                self.metrics.earlyApplied.increment(
                    by: draft.result.outcomes.prefix(draft.order.waited).count(where: \.isTaken))
            }
            if !draft.result.withheld.isEmpty {
                self.logger.notice(
                    "incomplete elements are hidden",
                    metadata: ["order": "\(draft.key)", "elements": "\(draft.result.withheld.joined(separator: "; "))"]
                        .traced(draft.traces.first))
            }
            guard let omitted = draft.package?.omittedFiles, !omitted.isEmpty else { continue }
            self.metrics.filesOmitted.increment(by: omitted.count)
            self.logger.warning(
                "files left out of a package",
                metadata: ["order": "\(draft.key)", "files": "\(omitted.joined(separator: ", "))"]
                    .traced(draft.traces.first))
        }
    }
}
