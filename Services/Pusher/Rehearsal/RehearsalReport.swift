/// What a rehearsal came to.
struct RehearsalReport: Sendable {
    let notifications: Int
    /// How many had which verdict, by its name.
    let verdicts: [String: Int]
    let seconds: Double
    /// What the process used meanwhile, in its own code and in the kernel for it.
    let processorSeconds: Double
    /// The most that was ever resident.
    let peakMegabytes: Double

    /// One line, for a program to read.
    var json: String {
        let verdicts = self.verdicts.sorted { $0.key < $1.key }.map { "\"\($0)\": \($1)" }.joined(separator: ", ")
        return """
            {"notifications": \(self.notifications), "seconds": \(self.seconds), "rate": \(self.rate), \
            "cpu": \(self.processorSeconds), "peak_mb": \(self.peakMegabytes), "verdicts": {\(verdicts)}}
            """
    }

    private var rate: Double { Double(self.notifications) / max(self.seconds, 1e-9) }
}
