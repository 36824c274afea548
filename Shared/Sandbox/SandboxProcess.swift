import CSandbox
import Glibc

/// The parent's side of a child in the wall.
///
/// Nothing is assumed of a child: its answers are counted and bounded, each is waited for until a deadline, and its
/// processor time is looked at here, too. Owner: this value owns process and socket, and ends both. Thread: that which
/// starts it, since the system ends the child with this thread.
public struct SandboxProcess: ~Copyable {
    /// The most questions of a child to one request.
    private static let questionLimit = 1000
    private static let tick: Int32 = 50

    /// For tests and logs.
    public let identifier: Int32
    private let sandbox: Sandbox
    let socket: Int32
    private var reader: FrameReader
    private(set) var end: SandboxEnd?

    /// Starts a child, and waits until its wall is closed. Blocks.
    ///
    /// - Throws: `SandboxError` with what the system refuses.
    public static func started(_ sandbox: Sandbox) throws(SandboxError) -> SandboxProcess {
        var pair: [Int32] = [0, 0]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, kind, 0, &pair) == 0 else { throw self.refusal("a socket", errno) }
        _ = fcntl(pair[0], F_SETFL, O_NONBLOCK)
        var identifier: pid_t = 0
        let code = unsafe csandbox_spawn(
            sandbox.path, sandbox.command, sandbox.limits(parent: getpid()), pair[1], &identifier)
        close(pair[1])
        guard code == 0 else {
            close(pair[0])
            throw self.refusal("to start \(sandbox.path)", code)
        }
        var process = SandboxProcess(sandbox, socket: pair[0], identifier)
        let ready = process.answers([], 1, isTask: false, answering: nil)
        guard let answer = ready.answers.first else {
            throw SandboxError(description: "it ended at its start: \(ready.end.map { "\($0)" } ?? "")")
        }
        guard answer.isEmpty else {
            throw SandboxError(description: String(decoding: answer.prefix(200), as: UTF8.self))
        }
        return process
    }

    private init(_ sandbox: Sandbox, socket: Int32, _ identifier: Int32) {
        (self.sandbox, self.socket, self.identifier) = (sandbox, socket, identifier)
        self.reader = FrameReader(limit: sandbox.frame)
    }

    deinit {
        if self.end == nil { _ = csandbox_end(self.identifier) }
        close(self.socket)
    }

    private static func refusal(_ what: String, _ code: Int32) -> SandboxError {
        SandboxError(description: "the system refuses \(what): \(unsafe String(cString: strerror(code)))")
    }

    /// Sends a request, and waits for its answers. Blocks. A child that has ended has no answer.
    ///
    /// - Parameters:
    ///   - count: the number of answers, one for each task of the request.
    ///   - answering: answers questions that the child asks meanwhile.
    public mutating func exchange(
        _ request: [UInt8], answers count: Int = 1, answering: (([UInt8]) -> [UInt8])? = nil
    ) -> SandboxExchange {
        if let end = self.end { return SandboxExchange(answers: [], end: end) }
        var poll = pollfd(fd: self.socket, events: Int16(POLLIN), revents: 0)
        // It has nothing to say before it is asked.
        guard self.reader.isEmpty, unsafe Glibc.poll(&poll, 1, 0) == 0 else { return self.ended([], .gone) }
        return self.answers(FrameReader.frame(request), count, isTask: true, answering: answering)
    }

    private mutating func answers(
        _ frame: [UInt8], _ count: Int, isTask: Bool, answering: (([UInt8]) -> [UInt8])?
    ) -> SandboxExchange {
        var (output, written) = (frame, 0)
        var answers: [[UInt8]] = []
        var questions = 0
        // The child's clock at the first look after an answer: looking costs two calls.
        var used: Int64?
        var looks = 1
        var last = ContinuousClock.now
        // The child's own timer is the first to end it; its clock ticks in milliseconds.
        let limit = Int64((self.sandbox.time * 2 + .milliseconds(50)) / .microseconds(1))
        while answers.count < count {
            while let frame = self.reader.next() {
                switch frame.kind {
                case .answer where answers.count < count:
                    answers.append(frame.content)
                    (used, looks, last) = (nil, 1, .now)
                case .question where answering != nil && questions < Self.questionLimit:
                    questions += 1
                    output.removeFirst(written)
                    written = 0
                    output += FrameReader.frame(answering?(frame.content) ?? [])
                default: return self.ended(answers, .crashed("its answers are not as agreed"))
                }
            }
            if answers.count == count { break }
            if self.reader.isBroken { return self.ended(answers, .crashed("its answers are not as agreed")) }
            // Also while it sends an answer byte by byte. All that has come is taken first: this process may have been
            // the one that stood still.
            let waited = ContinuousClock.now - last
            if waited > .milliseconds(Int64(Self.tick)) * looks {
                looks += 1
                let now = csandbox_used(self.identifier)
                if isTask, now - (used ?? now) > limit { return self.ended(answers, .time) }
                used = used ?? now
                if waited > self.sandbox.patience {
                    return self.ended(answers, .crashed("no answer for \(self.sandbox.patience)"))
                }
            }
            var poll = pollfd(
                fd: self.socket, events: Int16(POLLIN) | (written < output.count ? Int16(POLLOUT) : 0), revents: 0)
            guard unsafe Glibc.poll(&poll, 1, Self.tick) > 0 else { continue }
            if poll.revents & Int16(POLLOUT) != 0 {
                let sent = unsafe output.withUnsafeBytes { bytes in
                    unsafe send(
                        self.socket, bytes.baseAddress?.advanced(by: written), bytes.count - written,
                        Int32(MSG_NOSIGNAL))
                }
                if sent > 0 { written += sent }
            }
            if poll.revents & Int16(POLLIN) != 0 || poll.revents & Int16(POLLHUP | POLLERR) != 0 {
                guard self.reader.fill(from: self.socket) else { return self.ended(answers, nil) }
            }
        }
        return SandboxExchange(answers: answers, end: nil)
    }

    /// - Parameter reason: nil if the child has ended by itself.
    private mutating func ended(_ answers: [[UInt8]], _ reason: SandboxEnd?) -> SandboxExchange {
        let status = csandbox_end(self.identifier)
        let (signal, code) = (status & 0x7F, (status >> 8) & 0xFF)
        let found: SandboxEnd =
            switch (signal, code) {
            case (0, Int32(csandbox_time)): .time
            case (0, Int32(csandbox_memory)): .memory
            case (0, _): .crashed("its process ended with code \(code)")
            default: .crashed("its process was ended by signal \(signal)")
            }
        self.end = reason ?? found
        return SandboxExchange(answers: answers, end: self.end)
    }
}

/// Takes frames of a stream: their length in four bytes, little-endian, with their kind in the lowest bit, and the
/// content.
struct FrameReader {
    enum Kind: UInt32 {
        case answer, question
    }

    let limit: Int
    private var bytes: [UInt8] = []
    private var from = 0
    /// True if all that was read is taken.
    var isEmpty: Bool { self.from == self.bytes.count }
    /// True after a frame that is longer than it may be.
    private(set) var isBroken = false

    init(limit: Int) { self.limit = limit }

    static func head(_ count: Int, _ kind: Kind) -> [UInt8] {
        let word = UInt32(count) << 1 | kind.rawValue
        return (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * UInt32($0))) }
    }

    static func frame(_ content: [UInt8], _ kind: Kind = .answer) -> [UInt8] {
        Self.head(content.count, kind) + content
    }

    mutating func next() -> (kind: Kind, content: [UInt8])? {
        let left = self.bytes.count - self.from
        guard !self.isBroken, left >= 4 else { return nil }
        let word = (0..<4).reduce(UInt32(0)) { $0 | UInt32(self.bytes[self.from + $1]) << (8 * UInt32($1)) }
        let (count, kind) = (Int(word >> 1), Kind(rawValue: word & 1) ?? .answer)
        guard count <= self.limit else {
            self.isBroken = true
            return nil
        }
        guard left - 4 >= count else { return nil }
        let start = self.from + 4
        self.from = start + count
        return (kind, Array(self.bytes[start..<self.from]))
    }

    /// Reads once what there is.
    ///
    /// - Returns: false at the end of the stream.
    mutating func fill(from socket: Int32) -> Bool {
        self.bytes.removeFirst(self.from)
        self.from = 0
        let room = 1 << 16
        var result = 0
        let chunk = unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            result = unsafe recv(socket, buffer.baseAddress, room, 0)
            count = max(0, result)
        }
        // At the end of the stream the reason is that of another call.
        if result <= 0 { return result < 0 && (errno == EAGAIN || errno == EINTR) }
        self.bytes += chunk
        return true
    }

    /// Adds bytes as if they had been read.
    mutating func add(_ bytes: [UInt8]) { self.bytes += bytes }
}
