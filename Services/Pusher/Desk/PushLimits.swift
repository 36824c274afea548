/// How long things may wait and how much may be in hand. What operators set, and what only tests change.
struct PushLimits: Hashable, Sendable {
    /// How long changes for one device are gathered before it is told once; zero: each is told at once.
    var window = Duration.seconds(1)
    /// Most notifications a device gets in an hour; 0: no limit.
    var hourlyLimit = 60
    /// How long a device or a credential that makes no progress may hold changes back.
    var hold = Duration.seconds(300)
    /// Most attempts for one notification, those left out that failed because APNs was away.
    var attempts = 8
    /// Most notifications of one credential that are with its client.
    var inFlight = 10_000
    /// So many records in hand are all that are taken; what lookups add may reach over it.
    var records = 100_000
    /// Most devices that wait.
    var targets = 100_000
    /// Most pairs of a record and a device that has to be told of it.
    var links = 200_000
    /// Links of a lane for which nothing but probes can be sent.
    var probes = 64
    /// Most keys that are parked because of records of shared topics.
    var parkedKeys = 100_000
    /// Most records of shared topics that are parked.
    var parkedRecords = 500_000
    /// Most keys that wait in the pending topic and are known here.
    var pendingKeys = 200_000
    /// The time that records of shared topics wait for the service's fault before they move to the pending topic.
    var parkedHold = Duration.seconds(5)
    /// The same for a device at the desk whose credential is well: for its turn, or for another try.
    var deskHold = Duration.seconds(30)

    init() {}

    init(_ settings: PusherSettings) {
        self.window = settings.window
        self.hourlyLimit = settings.hourlyLimit ?? 0
        self.hold = settings.hold
        self.attempts = settings.attempts
        self.inFlight = settings.inFlight
    }
}
