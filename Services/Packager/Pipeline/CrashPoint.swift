import Kafka

#if DEBUG
    import Dispatch
    import Foundation
    import Glibc
    import Synchronization
#endif

/// A moment between two steps of a batch at which tests let the worker die or stand still.
///
/// In a release build nothing of it is there: `reached` is empty, and the names of the variables are not in the
/// executable. In a debug build the environment says what is to happen, once:
///
///     WAYBILL_CRASH_AT=written:2       the process kills itself when the moment comes for the 2nd time
///     WAYBILL_STALL_AT=folded          it stops itself (SIGSTOP) until somebody lets it go on (SIGCONT)
///     WAYBILL_STALL_AT=folded:1:5.5    the thread that came there stands still for 5.5 s, the others go on
///
/// Source: Design §4.1
enum CrashPoint: CaseIterable, Sendable {
    /// Records are there, nothing was done with them.
    case batchTaken
    /// The orders' states were read.
    case statesRead
    /// One order's changes are folded, and its package is not signed. Comes for each order, on any thread.
    case folded
    /// All packages of the batch are there.
    case signed
    /// The broker has what cannot be applied.
    case deadLettersSent
    /// The packages' pictures stand in Redis.
    case assetsPut
    /// The orders stand in Redis.
    case written
    /// The broker has the orders' versions and the ends of registrations.
    case published
    /// Registrations of removed orders are gone from Redis.
    case unregistered
    /// All results are given, and the offsets are about to be committed. Comes on the committing thread.
    case committing
    /// The broker has acknowledged a commit. Comes on the committing thread.
    case committed

    /// Says that the moment has come.
    @inline(__always)
    static func reached(_ point: CrashPoint) {
        #if DEBUG
            CrashPlan.crash?.reached(point)
            CrashPlan.stall?.reached(point)
        #endif
    }

    /// The two moments of a commit, for the consumer to call; nil in a release build.
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

        /// - Returns: nil when the variable is not there or says nothing that makes sense.
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
