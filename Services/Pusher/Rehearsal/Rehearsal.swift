import APNS
import Foundation
import Glibc
import Model
import NIOPosix

/// Made-up notifications on their way from their making to their verdicts.
struct Rehearsal: Sendable {
    let endpoint: APNSEndpoint
    let credential: APNSCredential
    let roots: [UInt8]?
    let targets: [PushToken]
    let notifications: Int
    let streams: Int
    let connections: Int
    /// How many are outstanding at once.
    let ahead: Int

    /// Notifications of one call.
    private static let burst = 250

    /// - Throws: `APNSError` when what was given cannot be used; `CancellationError`.
    func run() async throws -> RehearsalReport {
        var configuration = APNSConfiguration()
        configuration.streamCap = self.streams
        let client = try APNSClient(
            endpoint: self.endpoint, credential: self.credential, rootsPEM: self.roots,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, configuration: configuration)
        let type = try rehearsalOrderType()
        // Connecting is not what is measured.
        _ = await client.send(self.made(0..<1, type))
        let began = ContinuousClock.now
        let before = usage()
        let lanes = max(1, self.ahead / Self.burst)
        let counts = await withTaskGroup(of: [String: Int].self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    var counts: [String: Int] = [:]
                    for start in stride(
                        from: lane * Self.burst, to: self.notifications, by: lanes * Self.burst)
                    {
                        let range = start..<min(start + Self.burst, self.notifications)
                        for outcome in await client.send(self.made(range, type)) {
                            counts[name(of: verdict(of: outcome)), default: 0] += 1
                        }
                    }
                    return counts
                }
            }
            return await group.reduce(into: [String: Int]()) { $0.merge($1, uniquingKeysWith: +) }
        }
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        let after = usage()
        await client.close()
        return RehearsalReport(
            notifications: self.notifications, verdicts: counts, seconds: seconds,
            processorSeconds: after.processorSeconds - before.processorSeconds, peakMegabytes: after.peakMegabytes)
    }

    private func made(_ range: Range<Int>, _ type: OrderTypeIdentifier) -> [PushNotification] {
        let expiration = Int64(Date().timeIntervalSince1970) + 7 * 24 * 3600
        return range.map { number in
            PushNotification(
                deviceToken: self.targets[number % self.targets.count], topic: type, expirationEpochSeconds: expiration)
        }
    }
}

/// What this process has used so far.
private func usage() -> (processorSeconds: Double, peakMegabytes: Double) {
    var usage = rusage()
    // Fails only for a bad argument.
    _ = unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return (seconds(usage.ru_utime) + seconds(usage.ru_stime), Double(usage.ru_maxrss) / 1024)
}

private func name(of verdict: PushVerdict) -> String {
    switch verdict {
    case .delivered: "delivered"
    case .retire: "retire"
    case .retry: "retry"
    case .stopCredential: "stop"
    case .drop: "drop"
    }
}
