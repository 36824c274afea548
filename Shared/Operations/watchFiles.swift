import ServiceLifecycle
import Synchronization
import UnixSignals

/// Calls `look` at an interval and on SIGHUP, one call at a time, until the graceful shutdown.
///
/// - Parameters:
///   - begin: called once SIGHUP is trapped, which ends a process that does not trap it.
///   - look: receives true if a reload was requested since its last call. Requests during a call cause one more.
public func watchFiles(
    every interval: Duration, begin: () -> Void = {}, look: @escaping @Sendable (_ isAsked: Bool) async -> Void
) async {
    let hangups = await UnixSignalsSequence(trapping: .sighup)
    begin()
    let request = ReloadRequest()
    let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    await cancelWhenGracefulShutdown {
        await withTaskGroup { group in
            group.addTask {
                while (try? await Task.sleep(for: interval)) != nil { wake.yield() }
            }
            group.addTask {
                for await _ in hangups {
                    request.isOpen.store(true, ordering: .relaxed)
                    wake.yield()
                }
            }
            group.addTask {
                for await _ in wakes { await look(request.isOpen.exchange(false, ordering: .relaxed)) }
            }
        }
    }
}

/// Open from SIGHUP until the look that it requested begins.
private final class ReloadRequest: Sendable {
    let isOpen = Atomic<Bool>(false)
}
