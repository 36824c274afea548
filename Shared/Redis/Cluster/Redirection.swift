/// What an answer of a cluster's node says about where the command belongs.
///
/// All but `answer` mean that the command was not executed, so that it may be sent again.
/// Source: Redis cluster specification, "Redirection and resharding", "Multi-keys operations"
enum Redirection: Hashable {
    /// It is the command's own answer.
    case answer
    /// The slot is served there from now on.
    case moved(slot: Int, to: NodeAddress)
    /// This key is there already, others of its slot are not: this once, and behind ASKING.
    case ask(NodeAddress)
    /// The keys are on their way, or the cluster changes its mind: the same again a little later.
    case later

    /// - Parameter asked: who answered.
    init(_ reply: RedisValue, asked: NodeAddress) {
        guard case .error(let text) = reply else {
            self = .answer
            return
        }
        let words = text.split(separator: " ", maxSplits: 3)
        switch words.first {
        case "MOVED", "ASK":
            guard words.count >= 3, let slot = Int(words[1]), (0..<HashSlot.count).contains(slot),
                let node = NodeAddress(announced: words[2], asked: asked)
            else {
                self = .answer
                return
            }
            self = words[0] == "ASK" ? .ask(node) : .moved(slot: slot, to: node)
        case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN": self = .later
        default: self = .answer
        }
    }
}
