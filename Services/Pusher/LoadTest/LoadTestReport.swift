/// The results of a load test.
struct LoadTestReport: Sendable {
    let notifications: Int
    /// The number of notifications with each verdict, by its name.
    let verdicts: [String: Int]
    let seconds: Double
    /// Processor time of the process in user and kernel mode.
    let processorSeconds: Double
    /// The peak resident size.
    let peakMegabytes: Double

    /// The report as one line of JSON.
    var json: String {
        let verdicts = self.verdicts.sorted { $0.key < $1.key }.map { "\"\($0)\": \($1)" }.joined(separator: ", ")
        return """
            {"notifications": \(self.notifications), "seconds": \(self.seconds), "rate": \(self.rate), \
            "cpu": \(self.processorSeconds), "peak_mb": \(self.peakMegabytes), "verdicts": {\(verdicts)}}
            """
    }

    private var rate: Double { Double(self.notifications) / max(self.seconds, 1e-9) }
}
