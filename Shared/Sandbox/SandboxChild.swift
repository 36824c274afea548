import CSandbox
import Glibc

/// The child's side: a process that closes its wall, and then answers requests until its parent ends.
///
/// One thread, no descriptor but the socket and standard error.
public struct SandboxChild: ~Copyable {
    /// The longest time that answers wait for others, in microseconds: a frame for each would wake the parent.
    private static let pause: Int64 = 2000

    private let limit: Int64
    private var flushed: Int64

    /// Closes the wall, and calls `serve` for each request. Never returns.
    ///
    /// - Parameter limits: the argument of the child.
    public static func serve(_ limits: String, _ serve: (inout SandboxChild, [UInt8]) -> Void) -> Never {
        let numbers = limits.split(separator: ",").map { Int64($0) ?? 0 }
        guard numbers.count == 4, numbers.allSatisfy({ $0 >= 0 }) else {
            StandardError.write("this command is started by the service itself\n")
            _exit(64)
        }
        var bounds = csandbox_limits(
            memory: UInt64(numbers[1]), microseconds: numbers[2], parent: pid_t(truncatingIfNeeded: numbers[0]),
            filter: Int32(numbers[3]))
        var child = SandboxChild(limit: numbers[2])
        if let refused = unsafe csandbox_enter(&bounds) {
            let text =
                "the system refuses \(unsafe String(cString: refused)): \(unsafe String(cString: strerror(errno)))"
            child.answer(Array(text.utf8))
            csandbox_flush()
            _exit(1)
        }
        child.answer([])
        csandbox_flush()
        while let request = Self.read() {
            serve(&child, request)
            csandbox_done()
            csandbox_flush()
        }
        _exit(0)
    }

    private init(limit: Int64) {
        self.limit = limit
        self.flushed = Self.now
    }

    private static var now: Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }

    /// The processor time of this process, in microseconds.
    public var used: Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }

    /// Begins a task. The process ends if the task takes longer than it may.
    ///
    /// - Parameter spent: processor time that it has had before, in microseconds.
    public func begin(spent: Int64 = 0) { csandbox_begin(max(1000, self.limit - spent)) }

    /// Ends a task with its answer.
    public mutating func answer(_ content: [UInt8]) {
        csandbox_done()
        Self.put(content, .answer)
        let now = Self.now
        guard now - self.flushed > Self.pause || csandbox_waiting() > 1 << 16 else { return }
        csandbox_flush()
        self.flushed = now
    }

    /// Asks the parent, and waits for what it says.
    public static func ask(_ question: [UInt8]) -> [UInt8] {
        self.put(question, .question)
        csandbox_flush()
        guard let reply = self.read() else { _exit(0) }
        return reply
    }

    private static func put(_ content: [UInt8], _ kind: FrameReader.Kind) {
        let head = FrameReader.head(content.count, kind)
        unsafe head.withUnsafeBytes { unsafe csandbox_put($0.baseAddress, $0.count) }
        unsafe content.withUnsafeBytes { unsafe csandbox_put($0.baseAddress, $0.count) }
    }

    private static func read() -> [UInt8]? {
        var head: UInt32 = 0
        guard unsafe csandbox_read(&head, 4) != 0 else { return nil }
        let count = Int(UInt32(littleEndian: head) >> 1)
        var isWhole = true
        let content = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            isWhole = unsafe csandbox_read(buffer.baseAddress, count) != 0
            filled = isWhole ? count : 0
        }
        return isWhole ? content : nil
    }
}

private enum StandardError {
    static func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(2, $0.baseAddress, $0.count) }
    }
}
