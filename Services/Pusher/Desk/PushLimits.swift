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
    /// Most keys that are parked.
    var parkedKeys = 100_000
    /// Most records that are parked.
    var parkedRecords = 500_000

    init() {}

    init(_ settings: PusherSettings) {
        self.window = settings.window
        self.hourlyLimit = settings.hourlyLimit ?? 0
        self.hold = settings.hold
        self.attempts = settings.attempts
        self.inFlight = settings.inFlight
    }
}
