import APNS
import Brands
import FoundationEssentials
import Glibc
import Model
import NIOCore
import NIOPosix
import Operations
import Pusher

/// Sends generated records, from their creation to their verdicts, through scheduler, client and metrics as in the
/// service, without Kafka, Redis and dead letters.
///
/// Without coalescing, since merged notifications are not sent; with an hourly limit that is checked and never reached.
struct LoadTest: Sendable {
    let endpoint: APNSEndpoint
    let credential: APNSCredential
    let roots: [UInt8]?
    let targets: [LoadTestTarget]
    let notifications: Int
    /// The number of devices of each record.
    let fanOut: Int
    let streams: Int
    let connections: Int
    /// The number of notifications in hand.
    let ahead: Int

    /// - Throws: `APNSError` if the arguments cannot be used or the server does not answer.
    func run() async throws -> LoadTestReport {
        let orderType = try loadTestOrderType()
        let feed = LoadTestFeed(
            targets: self.targets, orderType: orderType, notifications: self.notifications, fanOut: self.fanOut,
            ahead: self.ahead)
        let scheduler = PushScheduler(
            limits: Self.limits, pendingTopic: "none", wallClock: { Int64(Date().timeIntervalSince1970 * 1000) })
        scheduler.whenFinished { feed.finish($0.count) }
        let metrics = PusherMetrics(factory: MetricsRegistry(), host: "\(self.endpoint)")
        let client = try self.client(orderType, scheduler: scheduler, metrics: metrics[orderType.rawValue])
        _ = scheduler.install(orderType, PushScheduler.Sender(client: client, generation: 1, options: PushOptions()))
        do {
            try await self.open(client, orderType)
        } catch {
            await client.close()
            throw error
        }
        let began = ContinuousClock.now
        let before = usage()
        let verdicts = await self.send(feed, scheduler, metrics)
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        let after = usage()
        for client in scheduler.removeAll() { await client.close() }
        return LoadTestReport(
            notifications: self.notifications, verdicts: verdicts, seconds: seconds,
            processorSeconds: after.processorSeconds - before.processorSeconds, peakMegabytes: after.peakMegabytes)
    }

    private static var limits: PushLimits {
        var limits = PushLimits()
        limits.window = .zero
        limits.hourlyLimit = 1_000_000_000
        return limits
    }

    private func client(
        _ orderType: OrderTypeIdentifier, scheduler: PushScheduler, metrics: CredentialMetrics
    ) throws -> APNSClient {
        var configuration = APNSConfiguration()
        configuration.streamCap = self.streams
        configuration.connections = self.connections...self.connections
        configuration.openSpacing = .zero
        configuration.queueLimit = Self.limits.inFlight
        configuration.onEvent = { metrics.happened($0) }
        return try APNSClient(
            endpoint: self.endpoint, credential: self.credential, rootsPEM: self.roots,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, configuration: configuration,
            onReplies: { replies in
                metrics.answered(replies)
                scheduler.receive(replies, of: orderType, generation: 1)
            })
    }

    /// Sends until every connection is established and accepts more than the one stream with which it begins.
    ///
    /// - Throws: `APNSError` if that takes too long.
    private func open(_ client: APNSClient, _ orderType: OrderTypeIdentifier) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        let notification = PushNotification(
            deviceToken: self.targets[0].registration.pushToken, topic: orderType, expirationEpochSeconds: 0)
        while ContinuousClock.now < deadline {
            let outcomes = await client.send(Array(repeating: notification, count: 4 * self.connections))
            let snapshot = await client.snapshot()
            if snapshot.connections[.open] == self.connections,
                snapshot.streamLimit >= self.connections * min(self.streams, 2)
            {
                return
            }
            if case .unanswered(let error) = outcomes[0] { throw error }
        }
        throw APNSError(.connecting, "opening \(self.connections) connections to \(self.endpoint): not within 20 s")
    }

    /// - Returns: the number of notifications with each verdict.
    private func send(
        _ feed: LoadTestFeed, _ scheduler: PushScheduler, _ metrics: PusherMetrics
    ) async -> [String: Int] {
        var verdicts: [String: Int] = [:]
        await withTaskGroup(of: [String: Int].self) { group in
            group.addTask {
                while let effect = await scheduler.followUps.next() {
                    scheduler.done(effect)
                    scheduler.followUps.ended(effect)
                }
                return [:]
            }
            group.addTask { await self.watch(scheduler, metrics) }
            await feed.run(scheduler)
            scheduler.followUps.end()
            group.cancelAll()
            for await counts in group { verdicts.merge(counts, uniquingKeysWith: +) }
        }
        return verdicts.filter { $0.value > 0 }
    }

    /// Does the worker's periodic work; returns the verdicts when it is cancelled.
    private func watch(_ scheduler: PushScheduler, _ metrics: PusherMetrics) async -> [String: Int] {
        var verdicts: [String: Int] = [:]
        var ticks = 0
        while !Task.isCancelled {
            scheduler.advance()
            try? await Task.sleep(for: PushWorker.tick)
            ticks += 1
            guard ticks % 10 == 0 || Task.isCancelled else { continue }
            for (type, tally) in scheduler.takeTallies() {
                (type.map { metrics[$0.rawValue] } ?? metrics.unknownTypes).count(tally)
                verdicts["delivered", default: 0] += tally.delivered
                verdicts["retried", default: 0] += tally.retried
                verdicts["merged", default: 0] += tally.coalesced
                verdicts["dropped", default: 0] += tally.dropped.values.reduce(0, +)
            }
            metrics.report(scheduler.gauges, quiet: nil)
        }
        return verdicts
    }
}

/// Returns the resources that this process has used so far.
private func usage() -> (processorSeconds: Double, peakMegabytes: Double) {
    var usage = rusage()
    // Fails only for a bad argument.
    _ = unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return (seconds(usage.ru_utime) + seconds(usage.ru_stime), Double(usage.ru_maxrss) / 1024)
}

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

/// Returns the invented order type of a load test's notifications.
func loadTestOrderType() throws -> OrderTypeIdentifier { try OrderTypeIdentifier("order.com.example.load-test") }

/// An invented device and the order that it follows.
struct LoadTestTarget: Hashable, Sendable {
    let device: DeviceIdentifier
    let order: OrderIdentifier
    let registration: RegistrationRecord
}

/// Returns invented devices, the same in each run; their push tokens are as long as Apple's are today and as hard to
/// compress.
///
/// Source: Wallet Orders §4.3; the generator is SplitMix64
func loadTestTargets(_ count: Int) throws -> [LoadTestTarget] {
    var state: UInt64 = 0x5EED
    func next() -> String {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        let digits = String(mixed ^ (mixed >> 31), radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
    return try (0..<count).map { _ in
        let token = try PushToken((0..<4).map { _ in next() }.joined())
        return LoadTestTarget(
            device: try DeviceIdentifier(next() + next()), order: try OrderIdentifier(next()),
            registration: RegistrationRecord(pushToken: token, registeredEpochMilliseconds: 0))
    }
}
