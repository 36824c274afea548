/// The meaning of a node's answer for the routing of its command.
///
/// All but `answer` mean that the command was not executed, so that it may be sent again.
/// Source: Redis cluster specification, "Redirection and resharding", "Multi-keys operations"
enum Redirection: Hashable {
    /// It is the command's own answer.
    case answer
    /// The slot is served by that node from this moment on.
    case moved(slot: Int, to: NodeAddress)
    /// That node has this key already, but not all others of its slot: send this command alone there, after ASKING.
    case ask(NodeAddress)
    /// The keys are being moved, or the cluster is being reconfigured: send the command again a little later.
    case later

    /// - Parameter asked: the node that answered.
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
