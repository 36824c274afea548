/// Limits on waiting times and on everything in hand. Operators set some of them; only tests change the others.
struct PushLimits: Hashable, Sendable {
    /// The time for which changes for one device are collected before it is notified once; zero: each change is sent
    /// immediately.
    var window = Duration.seconds(1)
    /// Most notifications that a device gets in an hour; 0: no limit.
    var hourlyLimit = 60
    /// Most notifications of an order in an hour that registrations cause; half of them may come at once.
    var registrationLimit = 100
    /// The longest time for which a device or a credential without progress may hold changes back.
    var hold = Duration.seconds(300)
    /// Most attempts for one notification that fail because of its device.
    var attempts = 8
    /// Most notifications of one credential that are with its client.
    var inFlight = 10_000
    /// Most records in hand; lookups may exceed it.
    var records = 100_000
    /// Most devices that wait.
    var targets = 100_000
    /// Most pairs of a record and a device that must be notified of it.
    var links = 200_000
    /// The same for one order type while there are others: more than a client sends within the window, and few enough
    /// that the records after a large change wait for few lookups.
    var queueLinks = 25_000
    /// Most links of a queue for which only probes can be sent.
    var probes = 64
    /// Most keys that are parked because of records of shared topics.
    var parkedKeys = 100_000
    /// Most records of shared topics that are parked.
    var parkedRecords = 500_000
    /// Most keys that wait in the pending topic and are known here.
    var pendingKeys = 200_000
    /// The time that records of shared topics wait because of the service, or for the device's turn under the hourly
    /// limit, before they move to the pending topic.
    var parkedHold = Duration.seconds(5)
    /// The same for a device in the scheduler that may be notified: it is ready, or waits for a retry.
    var schedulerHold = Duration.seconds(30)
}
