/// A program that handles what others sent, in a process that may be killed: how it is started, and its limits.
public struct Sandbox: Sendable {
    /// The path of the program, by default that of this process.
    public var path = "/proc/self/exe"
    /// The name of its command, which calls `SandboxChild.serve`.
    public let command: String
    /// The most bytes of memory that it may write to.
    public var memory = 64 << 20
    /// The processor time of a task.
    public var time = Duration.milliseconds(100)
    /// The most bytes of an answer, or of a question.
    public var frame = 8 << 20
    public var wall = SandboxWall.full
    /// The longest time without an answer. A busy machine makes a difference here, so it is long.
    public var patience = Duration.seconds(10)

    public init(command: String) { self.command = command }

    /// The argument of the child.
    func limits(parent: Int32) -> String {
        "\(parent),\(self.memory),\(Int64(self.time / .microseconds(1))),\(self.wall == .full ? 1 : 0)"
    }
}

/// The wall around a child.
public enum SandboxWall: String, CaseIterable, Sendable {
    /// Limits and a filter of system calls.
    case full
    /// Limits alone.
    case limits
}

/// The way in which a child ended.
public enum SandboxEnd: Hashable, Sendable, CustomStringConvertible {
    /// A task took more processor time than it may.
    case time
    /// A task needed more memory than it may have.
    case memory
    /// Anything else; a sentence for people.
    case crashed(String)
    /// It had ended before the request, or said something: no task is at fault.
    case gone
    /// It was not started, whatever the task; a sentence for people.
    case absent(String)

    public var description: String {
        switch self {
        case .time: "more processor time than it may take"
        case .memory: "more memory than it may have"
        case .gone: "it had ended before"
        case .crashed(let reason), .absent(let reason): reason
        }
    }
}

/// A child that could not be started; a sentence for people.
public struct SandboxError: Error, Hashable, CustomStringConvertible {
    public let description: String
}

/// The answers to a request, and the end of the child if there are fewer than were asked for.
public struct SandboxExchange: Sendable {
    public let answers: [[UInt8]]
    public let end: SandboxEnd?
}
