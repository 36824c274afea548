import Glibc
import Sandbox

/// A child for tests: each task is a word, and does what the word says.
guard CommandLine.arguments.count == 3 else { exit(64) }
SandboxChild.serve(CommandLine.arguments[2]) { child, request in
    if CommandLine.arguments[1] == "mapper" { return answerAsMapper(request, &child) }
    for task in String(decoding: request, as: UTF8.self).split(separator: " ") {
        child.begin()
        child.answer(Array(perform(String(task), child).utf8))
    }
}

/// Answers for each `<<task>>` in the values of records: does what the task says, or gives it as the result of `map`.
func answerAsMapper(_ request: [UInt8], _ child: inout SandboxChild) {
    for part in String(decoding: request, as: UTF8.self).split(separator: "<<").dropFirst() {
        let task = String(part.prefix { $0 != ">" })
        child.begin()
        guard task.hasPrefix("[") else {
            child.answer(Array(perform(task, child).utf8))
            continue
        }
        var writer = SandboxWriter()
        writer.add(UInt8(3))
        writer.add(task)
        writer.add([Int64]()) { $0.add($1) }
        writer.add(Int64(0))
        writer.add(Int64(0))
        writer.add(true)
        writer.add(["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]) { $0.add($1) }
        writer.add(Int64(0))
        child.answer(writer.bytes)
    }
}

func perform(_ task: String, _ child: borrowing SandboxChild) -> String {
    switch task {
    case "open": return unsafe "\(open("/etc/passwd", O_RDONLY))"
    case "connect": return "\(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))"
    case "fork":
        var process: pid_t = 0
        return unsafe "\(posix_spawn(&process, "/bin/true", nil, nil, [nil], nil))"
    case "thread":
        var thread = pthread_t()
        return "\(unsafe pthread_create(&thread, nil, { _ in nil }, nil))"
    case "signal": return "\(kill(getpid(), SIGUSR1))"
    case "code":
        let page = unsafe mmap(nil, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        return unsafe "\(page == MAP_FAILED)"
    case "spin": while true {}
    case "calls": while true { _ = child.used }
    case "wait":
        var byte: UInt8 = 0
        return "\(unsafe read(0, &byte, 1))"
    case "memory":
        var blocks: [[UInt8]] = []
        while true { blocks.append([UInt8](repeating: 1, count: 1 << 20)) }
    case "trap": return "\([1][blackHole(5)])"
    case "deep": return "\(deep(blackHole(1)))"
    case "ask": return String(decoding: SandboxChild.ask([1, 2, 3]), as: UTF8.self)
    case "asks": while true { _ = SandboxChild.ask([1]) }
    case "drip":
        // A frame of 4,000 bytes, in single bytes.
        var byte: UInt8 = 0x40
        while true {
            _ = unsafe write(0, &byte, 1)
            let start = child.used
            while child.used < start + 20_000 {}
            byte = byte == 0x40 ? 0x1F : 0
        }
    case "large": return String(repeating: "x", count: 70_000)
    default: return "\(task)!"
    }
}

@inline(never) func blackHole(_ value: Int) -> Int { CommandLine.arguments.count > 100 ? 0 : value }

@inline(never) func deep(_ value: Int) -> Int { value > 0 ? deep(value + 1) + 1 : 0 }
