import CoreMetrics
import Dispatch
import Glibc
import Kafka
import Synchronization

/// Writes the log of a service on a thread of its own: a reader of the log that stands still stops nothing else.
///
/// Owner: the process, until its end. Threads: any may log; one writes, and may stand in a write for as long as the
/// reader does. Bounded: by `LogQueue`, and each wait for the writer by a limit.
final class LogWriter: Sendable {
    /// The longest wait for lines at the end of the process.
    static let flushLimit = Duration.seconds(2)

    private struct State {
        var queue: LogQueue
        /// Signalled when no line waits.
        var waiting: [DispatchSemaphore] = []
    }

    /// The lines of all writers that wait, for `CrashedLog`.
    static let unwritten = Atomic(0)

    private let state: Mutex<State>
    private let wake = DispatchSemaphore(value: 0)
    private let dropped: Counter
    private let sink: @Sendable (String) -> Bool

    /// Starts the thread.
    ///
    /// - Parameter sink: writes a line; false if that failed. It may block.
    /// - Throws: `KafkaError` if the system refuses a thread.
    init(
        _ queue: LogQueue, metrics: any MetricsFactory,
        sink: @escaping @Sendable (String) -> Bool = { StandardStream.output.write($0) }
    ) throws(KafkaError) {
        self.state = Mutex(State(queue: queue))
        self.dropped = Counter(label: "waybill_log_lines_dropped_total", factory: metrics)
        self.sink = sink
        try KafkaThread.start("log") { self.serve() }
    }

    /// Takes a line to be written soon. Never waits for the reader.
    func write(_ line: String) {
        if self.change({ $0.add(line) }) { self.wake.signal() }
    }

    /// Waits until the lines so far are written, or for a time.
    func flush(within limit: Duration = LogWriter.flushLimit) {
        let isWritten = DispatchSemaphore(value: 0)
        let waits = self.state.withLock { state in
            if state.queue.next != nil { state.waiting.append(isWritten) }
            return state.queue.next != nil
        }
        if waits { _ = isWritten.wait(timeout: .now() + .milliseconds(Int(limit / .milliseconds(1)))) }
    }

    /// - Returns: true if lines wait, and did not before.
    @discardableResult
    private func change(_ body: (inout LogQueue) -> Void) -> Bool {
        let (lines, dropped, isFirst) = self.state.withLock { state in
            let (count, before) = (state.queue.count, state.queue.dropped)
            body(&state.queue)
            return (state.queue.count - count, state.queue.dropped - before, count == 0 && state.queue.count > 0)
        }
        Self.unwritten.add(lines, ordering: .relaxed)
        if dropped > 0 { self.dropped.increment(by: Int64(dropped)) }
        return isFirst
    }

    private func serve() {
        while true {
            while let line = self.state.withLock({ $0.queue.next }) {
                let isWritten = self.sink(line)
                self.change { $0.ended(isWritten: isWritten) }
            }
            let waiting = self.state.withLock { state in
                guard state.queue.next == nil else { return [DispatchSemaphore]() }
                defer { state.waiting = [] }
                return state.waiting
            }
            for semaphore in waiting { semaphore.signal() }
            self.wake.wait()
        }
    }
}

/// The log of a process that crashes: its last lines, which may tell the cause, are written before the process ends.
///
/// The thread that crashed waits in the handler of its signal while the one that writes goes on. After that the signal
/// has the effect that it has without this. SIGKILL, and so a process without memory, ends the lines that wait.
enum CrashedLog {
    /// The longest wait, in milliseconds.
    private static let limit = 500
    private static let signals = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP]
    private static let former = Mutex<[Int32: sigaction]>([:])

    /// Waits for lines at a crash, for the rest of the process.
    static func beWritten() {
        for number in Self.signals {
            var (action, former) = (sigaction(), sigaction())
            unsafe action.__sigaction_handler.sa_sigaction = { number, information, _ in
                CrashedLog.end(number, wasSent: unsafe (information?.pointee.si_code ?? 0) <= 0)
            }
            action.sa_flags = SA_SIGINFO | SA_ONSTACK
            guard unsafe sigaction(number, &action, &former) == 0 else { continue }
            Self.former.withLock { $0[number] = former }
        }
    }

    /// - Parameter wasSent: false for a fault of the instruction, which is executed again: the signal then comes anew.
    ///   Source: sigaction(2), "si_code"
    private static func end(_ number: Int32, wasSent: Bool) {
        var pause = timespec(tv_sec: 0, tv_nsec: 1_000_000)
        for _ in 0..<Self.limit where LogWriter.unwritten.load(ordering: .relaxed) > 0 {
            _ = unsafe nanosleep(&pause, nil)
        }
        // All of it zero: the system's own effect.
        var former = Self.former.withLock { $0[number] } ?? sigaction()
        _ = unsafe sigaction(number, &former, nil)
        if wasSent { raise(number) }
    }
}
