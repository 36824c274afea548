import Foundation
import Glibc
import Synchronization

/// Held while a program starts: until the program runs, it holds copies of all our descriptors, and the port of a
/// listening socket remains in use even if we close it in the meantime.
/// Source: posix_spawn(3): it returns when the program runs
let spawning = Mutex(())

/// Starts a program as the leader of a new process group, with default signals and the given descriptors as 0, 1, 2.
func spawn(_ arguments: [String], _ environment: [String], descriptors: [Descriptor]) throws -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }

    for (number, descriptor) in descriptors.enumerated() {
        unsafe posix_spawn_file_actions_adddup2(&actions, descriptor.number, Int32(number))
    }
    // NIO's sockets are not close-on-exec: a child would keep ports and connections of other tests open. Closing
    // numbers that are not open is harmless, so a margin covers descriptors that other threads open meanwhile. (Swift
    // does not import `closefrom`.)
    let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }
    for number in Int32(descriptors.count)..<((open.max() ?? 0) + 64) {
        unsafe posix_spawn_file_actions_addclose(&actions, number)
    }
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }

    var (none, all) = (sigset_t(), sigset_t())
    unsafe sigemptyset(&none)
    unsafe sigfillset(&all)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setsigdefault(&attributes, &all)
    unsafe posix_spawnattr_setpgroup(&attributes, 0)
    let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
    unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
    var argv = unsafe arguments.map { unsafe strdup($0) } + [nil]
    defer { for index in unsafe argv.indices { unsafe free(argv[index]) } }

    var envp = unsafe environment.map { unsafe strdup($0) } + [nil]
    defer { for index in unsafe envp.indices { unsafe free(envp[index]) } }

    var identifier: pid_t = 0
    let result = spawning.withLock { _ in
        unsafe posix_spawn(&identifier, arguments[0], &actions, &attributes, &argv, &envp)
    }
    guard result == 0 else {
        throw ChildProcess.Failure(description: "starting \(arguments[0]): error \(result)")
    }
    return identifier
}
