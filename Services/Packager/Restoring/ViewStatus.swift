import Store

/// A judgement of the view, made from its marks in Redis.
enum ViewStatus: Hashable, Sendable {
    /// Nothing happened since a packager judged it.
    case complete
    /// It was complete, but Redis was restarted or another server took over: it may have fallen back.
    case doubtful
    /// It is not complete, and no packager is restoring it.
    case missing
    /// It is being restored.
    case restoring

    init(_ places: [MaterializedView.Place]) {
        if places.contains(where: { $0.plan != nil }) {
            self = .restoring
        } else if places.contains(where: { $0.epoch == nil }) || places.isEmpty {
            self = .missing
        } else {
            self = places.allSatisfy(\.isHere) ? .complete : .doubtful
        }
    }
}
