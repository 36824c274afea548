import CoreMetrics
import Glibc
import Logging
import NIOPosix
import Operations
public import ServiceLifecycle
import Synchronization

/// The certificate for new connections, reloaded from its files when they change and on SIGHUP.
///
/// Open connections keep theirs. Files that cannot be used affect only the log and a metric.
public final class CertificateReload: Service {
    /// The interval at which the files are checked.
    static let interval = Duration.seconds(5)

    private let files: TLSFiles
    private let interval: Duration
    private let metrics: TransportMetrics
    private let logger: Logger
    private let state: Mutex<State>

    private struct State {
        var certificate: ServerCertificate
        var stamps: FileStamps
    }

    /// - Parameter certificate: loaded from the files a moment ago. If they have changed since, they are read again.
    init(
        files: TLSFiles, certificate: ServerCertificate, interval: Duration = CertificateReload.interval,
        metrics: TransportMetrics, logger: Logger
    ) {
        self.files = files
        self.interval = interval
        self.metrics = metrics
        self.logger = logger
        // No stamps: the first two checks find a change and load once more, whatever happened before.
        self.state = Mutex(State(certificate: certificate, stamps: FileStamps(taken: [nil, nil])))
        self.showExpiry(certificate)
    }

    /// The certificate for a new connection.
    var certificate: ServerCertificate { self.state.withLock { $0.certificate } }

    /// Checks the files until it is told to stop.
    public func run() async throws {
        await watchFiles(every: self.interval) { await self.look(isAsked: $0) }
    }

    /// Checks the files, on a thread that may block.
    func look(isAsked: Bool) async {
        // The pool of the process does not end before the process does.
        try? await NIOThreadPool.singleton.runIfActive { self.lookNow(isAsked: isAsked) }
    }

    private func lookNow(isAsked: Bool) {
        // The stamps come before the content: a write in between is seen by the next check.
        let stamps = [FileStamp(path: self.files.certificate), FileStamp(path: self.files.key)]
        if self.state.withLock({ $0.stamps.isDue(stamps, isAsked: isAsked) }) {
            do {
                let certificate = try self.files.load(nowEpochSeconds: Self.now())
                self.state.withLock { $0.certificate = certificate }
                self.metrics.certificatesLoaded.increment()
                self.metrics.certificateState.report(true)
                self.logger.info("certificate loaded", metadata: ["path": "\(self.files.certificate)"])
            } catch {
                self.metrics.certificatesRefused.increment()
                self.metrics.certificateState.report(false)
                self.logger.error(
                    "certificate rejected; the previous one stays in use", metadata: ["error": "\(error)"])
            }
        }
        self.showExpiry(self.certificate)
    }

    private func showExpiry(_ certificate: ServerCertificate) {
        self.metrics.certificateEnds(epochSeconds: certificate.notAfterEpochSeconds)
    }

    private static func now() -> Int64 { Int64(time(nil)) }
}

/// The attributes by which a change or replacement of a file is detected without reading it.
struct FileStamp: Hashable, Sendable {
    let device: UInt64
    let node: UInt64
    let size: Int64
    /// The time of the last change of content or rights, so that a file that becomes readable counts as changed.
    let changedSeconds: Int64
    let changedNanoseconds: Int64

    /// Follows symbolic links: many tools replace certificates in this way. Nil if the file does not exist.
    init?(path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        self.device = UInt64(status.st_dev)
        self.node = UInt64(status.st_ino)
        self.size = Int64(status.st_size)
        self.changedSeconds = Int64(status.st_ctim.tv_sec)
        self.changedNanoseconds = Int64(status.st_ctim.tv_nsec)
    }
}

/// Decides when files that are checked periodically are read again.
///
/// A change counts once two checks have seen it alike: a program that replaces two files one after the other, or writes
/// one slowly, has until the next check to finish.
struct FileStamps: Sendable {
    private var taken: [FileStamp?]
    private var seen: [FileStamp?]

    /// - Parameter taken: the stamps of the files from before they were read.
    init(taken: [FileStamp?]) {
        self.taken = taken
        self.seen = taken
    }

    /// Processes the stamps of a new check.
    ///
    /// - Parameter isAsked: true if a reload was requested, so the files are read whatever the stamps are.
    /// - Returns: true if the files must be read.
    mutating func isDue(_ stamps: [FileStamp?], isAsked: Bool = false) -> Bool {
        defer { self.seen = stamps }
        guard isAsked || (stamps != self.taken && stamps == self.seen) else { return false }
        self.taken = stamps
        return true
    }
}
