/// The measurements and findings of a replay.
struct ReplayReport: Sendable {
    var changes = 0
    var stories = 0
    var devices = 0
    var samples = 0
    var packages = 0
    var pushes: Int64 = 0
    var deadLetters = 0
    /// The times from the first change until all changes were published, packaged and pushed.
    var publishing = Duration.zero
    var packaging = Duration.zero
    var pushing = Duration.zero
    /// A reason for each kind of broken change.
    var reasons: [BrokenChange: String] = [:]
    /// The differences from the expected results.
    var differences: [String] = []

    var lines: [String] {
        var lines = [
            "published   \(self.changes) changes in \(Console.milliseconds(self.publishing))",
            "packaged    all in \(Console.milliseconds(self.packaging)): "
                + "\(Console.rate(Int64(self.changes), per: self.packaging)) changes/s, "
                + "\(Console.rate(Int64(self.packages), per: self.packaging)) packages/s",
            "conflation  \(self.packages) signatures for \(self.changes) changes: \(self.changes - self.packages) saved",
            "pushed      \(self.pushes) in \(Console.milliseconds(self.pushing)): "
                + "\(Console.rate(self.pushes, per: self.pushing)) pushes/s",
            "checked     \(self.stories) packages, \(self.samples) of them by openssl, \(self.devices) devices, "
                + "\(self.deadLetters) dead letters, lag 0 in every partition",
        ]
        for (kind, reason) in self.reasons.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            lines.append("dead letter \(kind): \(reason)")
        }
        lines.append("differences \(self.differences.count)")
        lines += self.differences.prefix(10).map { "    \($0)" }
        return lines
    }
}
