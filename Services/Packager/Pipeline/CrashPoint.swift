import Kafka

#if DEBUG
    import Dispatch
    import FoundationEssentials
    import Glibc
    import Synchronization
#endif

/// A moment between two steps of a batch at which tests kill or stall the worker.
///
/// A release build has none of it: `reached` is empty, and the names of the variables are not in the executable. In a
/// debug build the environment requests an action, which happens once:
///
///     WAYBILL_CRASH_AT=written:2       the process kills itself when the moment comes for the 2nd time
///     WAYBILL_STALL_AT=folded          it stops itself (SIGSTOP) until it is continued (SIGCONT)
///     WAYBILL_STALL_AT=folded:1:5.5    the thread that arrives there stalls for 5.5 s; the others continue
///
/// Source: Design §4.1
enum CrashPoint: CaseIterable, Sendable {
    /// Records have arrived; nothing was done with them.
    case batchTaken
    /// The orders' states were read.
    case statesRead
    /// One order's changes are folded, and its package is not signed yet. Reached for each order, on any thread.
    case folded
    /// All packages of the batch are signed.
    case signed
    /// The broker has the dead letters.
    case deadLettersSent
    /// The packages' assets are in Redis.
    case assetsPut
    /// The orders are in Redis.
    case written
    /// The broker has the orders' versions, but not yet the ends of registrations.
    case published
    /// Registrations of removed orders are gone from Redis.
    case unregistered
    /// All outcomes are known, and the offsets are about to be committed. Reached on the committing thread.
    case committing
    /// The broker has acknowledged a commit. Reached on the committing thread.
    case committed

    /// Reports that a moment has come.
    @inline(__always)
    static func reached(_ point: CrashPoint) {
        #if DEBUG
            CrashPlan.crash?.reached(point)
            CrashPlan.stall?.reached(point)
        #endif
    }

    /// A callback for the two moments of a commit; nil in a release build.
    static var commits: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? {
        #if DEBUG
            return { moment in
                switch moment {
                case .chosen: Self.reached(.committing)
                case .acknowledged: Self.reached(.committed)
                }
            }
        #else
            return nil
        #endif
    }
}

#if DEBUG
    /// The action that the environment requests at one moment.
    private final class CrashPlan: Sendable {
        static let crash = CrashPlan("WAYBILL_CRASH_AT", signal: SIGKILL)
        static let stall = CrashPlan("WAYBILL_STALL_AT", signal: SIGSTOP)

        private let point: CrashPoint
        private let signal: Int32
        private let seconds: Double?
        /// The number of times that the moment must still come before the action.
        private let count: Mutex<Int>

        /// - Returns: nil if the variable is not set or not valid.
        init?(_ variable: String, signal: Int32) {
            let words = (ProcessInfo.processInfo.environment[variable] ?? "").split(separator: ":")
            guard let name = words.first, let point = CrashPoint.allCases.first(where: { "\($0)" == name }) else {
                return nil
            }
            self.point = point
            self.signal = signal
            self.seconds = words.count > 2 ? Double(words[2]) : nil
            self.count = Mutex(words.count > 1 ? Int(words[1]) ?? 1 : 1)
        }

        func reached(_ point: CrashPoint) {
            guard point == self.point else { return }
            let isNow = self.count.withLock { count in
                count -= 1
                return count == 0
            }
            guard isNow else { return }
            guard let seconds = self.seconds else {
                _ = kill(getpid(), self.signal)
                return
            }
            _ = DispatchSemaphore(value: 0).wait(timeout: .now() + seconds)
        }
    }
#endif
