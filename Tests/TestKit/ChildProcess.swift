import Foundation
import Glibc
import Synchronization

/// A program that runs while a test needs it, and never longer than the test process.
///
/// Two small shells ensure that even if this process is killed. The first waits for a line from us and then becomes the
/// program, the leader of its own process group; the second waits on a pipe that only this process holds open and kills
/// that group when the pipe closes. The line is sent after the second one runs, so there is no moment without a guard.
/// Standard output and error are one stream, kept in memory (at least the last 2 MiB, at most 4 MiB) and, on request,
/// in a file. Dropping the last reference kills the program; `stop()` ends it gracefully.
public final class ChildProcess: Sendable {
    /// The way in which a program ended.
    public enum Exit: Hashable, Sendable {
        case code(Int32)
        case signal(Int32)

        /// Source: wait(2), WIFEXITED and WTERMSIG of glibc's bits/waitstatus.h
        init(status: Int32) { self = status & 0x7F == 0 ? .code((status >> 8) & 0xFF) : .signal(status & 0x7F) }
    }

    /// The reason why a program could not be started or waited for. The end of its output is in the message.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// The process identifier of the program (not of a shell around it).
    public let processIdentifier: Int32

    private let state: State
    private let lifeline: Mutex<Descriptor?>

    /// Starts a program.
    /// - Parameters:
    ///   - program: a path, or a name that is looked up in `PATH`. A program that does not exist ends with code 127.
    ///   - environment: variables added to those of this process.
    ///   - log: the path of a file that receives the output as well.
    public init(
        _ program: String, _ arguments: [String] = [], environment: [String: String] = [:],
        workingDirectory: String? = nil, log: String? = nil
    ) throws {
        try TestServers.use(program)
        let go = try Descriptor.pipe()
        let guardPipe = try Descriptor.pipe()
        let output = try Descriptor.pipe()
        let null = try Descriptor.open("/dev/null", O_RDWR)
        let logFile = try log.map { try Descriptor.open($0, O_WRONLY | O_CREAT | O_APPEND) }
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        let script = "read -r go || exit 125; cd \"$1\" || exit 126; shift; exec \"$@\" </dev/null"
        let leader = try spawn(
            ["/bin/sh", "-c", script, "sh", workingDirectory ?? "."] + [program] + arguments, variables,
            descriptors: [go.reading, output.writing, output.writing])
        // No `--` before the group: dash's kill does not support it.
        let watch = "trap '' INT TERM HUP; read -r end; kill -9 \"-$1\""
        let watcher = try spawn(
            ["/bin/sh", "-c", watch, "sh", "\(leader)"], variables, descriptors: [guardPipe.reading, null, null])
        self.processIdentifier = leader
        self.lifeline = Mutex(guardPipe.writing)
        self.state = State(leader: leader, watcher: watcher)
        go.writing.write([0x0A])
        let (state, reading) = (self.state, output.reading)
        Thread { state.readAll(from: reading, copyingTo: logFile) }.start()
        Thread { state.reap() }.start()
    }

    deinit { self.state.signalGroup(SIGKILL) }

    /// The program's output so far.
    public var output: String { self.state.text }

    /// The way in which the program ended; nil until it has ended and its output is read completely.
    public var exit: Exit? { self.state.exit }

    /// Sends a signal to the program if it is still running.
    public func signal(_ number: Int32) { self.state.signal(number) }

    /// Waits for a line of output that satisfies a condition and returns it.
    /// - Throws: `Failure` at the deadline, or if the program has ended without such a line.
    @discardableResult
    public func line(
        within limit: Duration = .seconds(20), where matches: (Substring) -> Bool
    ) async throws -> String {
        let deadline = ContinuousClock.now + limit
        while true {
            let ended = self.exit
            let text = self.state.text
            let whole = ended == nil ? text[..<(text.lastIndex(of: "\n") ?? text.startIndex)] : text[...]
            if let line = whole.split(separator: "\n").first(where: matches) { return String(line) }
            if let ended { throw Failure(description: "ended with \(ended) before it was ready: \(self.tail)") }
            if ContinuousClock.now > deadline { throw Failure(description: "not ready in \(limit): \(self.tail)") }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Waits for a line that contains a text and returns it.
    @discardableResult
    public func line(containing text: String, within limit: Duration = .seconds(20)) async throws -> String {
        try await self.line(within: limit) { $0.contains(text) }
    }

    /// Waits until the program ends; sends no signal.
    /// - Throws: `Failure` at the deadline; the program then continues to run.
    @discardableResult
    public func exit(within limit: Duration) async throws -> Exit {
        let deadline = ContinuousClock.now + limit
        while true {
            if let exit = self.exit { return exit }
            if ContinuousClock.now > deadline { throw Failure(description: "still runs after \(limit): \(self.tail)") }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Returns the resident memory in bytes.
    public func residentBytes() throws -> Int {
        let path = "/proc/\(self.processIdentifier)/status"
        let status = try String(contentsOfFile: path, encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        let words = (line ?? "").split(whereSeparator: \.isWhitespace)
        guard words.count == 3, let kilobytes = Int(words[1]) else { throw Failure(description: "no VmRSS in \(path)") }
        return kilobytes << 10
    }

    /// Ends the program: SIGTERM, and SIGKILL if it still runs after the grace period. Works in a cancelled task.
    @discardableResult
    public func stop(grace: Duration = .seconds(5)) async -> Exit {
        self.signal(SIGTERM)
        let deadline = ContinuousClock.now + grace
        while true {
            if let exit = self.exit { return exit }
            if ContinuousClock.now > deadline { self.state.signalGroup(SIGKILL) }
            await withCheckedContinuation { continuation in
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(5)) { continuation.resume() }
            }
        }
    }

    /// Runs a program to its end and returns its output.
    /// - Parameter environment: variables added to those of this process.
    /// - Throws: `Failure` if it ends with a code other than 0 or by a signal, or does not end in time.
    @discardableResult
    public static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        workingDirectory: String? = nil, within limit: Duration = .seconds(60)
    ) async throws -> String {
        let child = try ChildProcess(
            program, arguments, environment: environment, workingDirectory: workingDirectory)
        let exit = try await child.exit(within: limit)
        guard exit == .code(0) else { throw Failure(description: "\(program) ended with \(exit): \(child.tail)") }
        return child.output
    }

    /// Closes the pipe on which the guard waits, as the kernel does when this process is killed.
    func closeLifeline() { self.lifeline.withLock { $0 = nil } }

    /// The last 2,000 characters of the output.
    public var tail: String { String(self.output.suffix(2000)) }
}

extension ChildProcess {
    /// The state that the two threads of a child write and its owner reads.
    ///
    /// The lock is held while a signal is sent and while the child is reaped, so a signal never reaches a reused
    /// identifier.
    fileprivate final class State: Sendable {
        private struct Values {
            var bytes: [UInt8] = []
            var outputEnded = false
            var exit: Exit?
            var isReaped = false
        }
        private static let outputLimit = 4 << 20
        private let leader: pid_t
        private let watcher: pid_t
        private let values = Mutex(Values())

        init(leader: pid_t, watcher: pid_t) {
            self.leader = leader
            self.watcher = watcher
        }

        var text: String { self.values.withLock { String(decoding: $0.bytes, as: UTF8.self) } }
        /// Nil until all output has been read too, so that a caller that sees the exit also sees the last line.
        var exit: Exit? { self.values.withLock { $0.outputEnded ? $0.exit : nil } }

        func signal(_ number: Int32) {
            self.values.withLock { if !$0.isReaped { _ = kill(self.leader, number) } }
        }

        func signalGroup(_ number: Int32) {
            self.values.withLock { if !$0.isReaped { _ = kill(-self.leader, number) } }
        }

        func readAll(from descriptor: Descriptor, copyingTo log: Descriptor?) {
            while let bytes = descriptor.read(upTo: 65536) {
                log?.write(bytes)
                self.values.withLock { values in
                    values.bytes += bytes
                    if values.bytes.count > Self.outputLimit {
                        values.bytes.removeFirst(values.bytes.count - Self.outputLimit / 2)
                    }
                }
            }
            self.values.withLock { $0.outputEnded = true }
        }

        /// Waits for the program's end, kills the rest of its group and the guard, and reaps both.
        func reap() {
            var information = unsafe siginfo_t()
            while unsafe waitid(P_PID, id_t(self.leader), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            self.values.withLock { values in
                _ = kill(-self.leader, SIGKILL)
                _ = kill(self.watcher, SIGKILL)
                var status: Int32 = 0
                while unsafe waitpid(self.leader, &status, 0) < 0, errno == EINTR {}
                var ignored: Int32 = 0
                while unsafe waitpid(self.watcher, &ignored, 0) < 0, errno == EINTR {}
                values.isReaped = true
                values.exit = Exit(status: status)
            }
        }
    }
}
