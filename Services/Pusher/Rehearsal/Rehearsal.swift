import APNS
import Foundation
import Glibc
import Model
import NIOCore
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

    /// - Throws: `APNSError` when what was given cannot be used.
    func run() async throws -> RehearsalReport {
        var configuration = APNSConfiguration()
        configuration.streamCap = self.streams
        configuration.connections = self.connections...self.connections
        configuration.openSpacing = .zero
        let desk = RehearsalDesk(
            targets: self.targets, orderType: try rehearsalOrderType(),
            expirationEpochSeconds: Int64(Date().timeIntervalSince1970) + 7 * 24 * 3600,
            notifications: self.notifications, ahead: self.ahead)
        let client = try APNSClient(
            endpoint: self.endpoint, credential: self.credential, rootsPEM: self.roots,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, configuration: configuration,
            onReplies: desk.take)
        let began = ContinuousClock.now
        let before = usage()
        let verdicts = await desk.run(client)
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        let after = usage()
        await client.close()
        return RehearsalReport(
            notifications: self.notifications, verdicts: verdicts, seconds: seconds,
            processorSeconds: after.processorSeconds - before.processorSeconds, peakMegabytes: after.peakMegabytes)
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
