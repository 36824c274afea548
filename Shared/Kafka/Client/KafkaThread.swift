import Glibc

/// Starts threads that belong to no pool.
public enum KafkaThread {
    /// Runs `body` on a new detached thread; the caller must keep a means to end it.
    ///
    /// - Parameter name: at most 15 bytes, the kernel's limit. Source: proc(5), comm
    /// - Throws: `.outOfMemory` if the system refuses a thread; `body` is then dropped.
    public static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(KafkaError) {
        let box = unsafe Unmanaged.passRetained(Body(name: name, run: body))
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { context in
                guard let context = unsafe context else { return nil }
                // Takes back the +1 of passRetained above: exactly one of this line and `release` runs.
                let body = unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                KafkaThread.rename(body.name)
                body.run()
                return nil
            }, box.toOpaque())
        guard code == 0 else {
            unsafe box.release()
            throw KafkaError(.outOfMemory, "starting thread \(name): code \(code)")
        }
        pthread_detach(thread)
    }

    /// Names the calling thread, for `top -H` and profilers; a failure does not matter.
    private static func rename(_ name: String) {
        guard let file = unsafe fopen("/proc/thread-self/comm", "we") else { return }  // tidy: is written
        _ = unsafe fputs(name, file)
        _ = unsafe fclose(file)
    }

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }
}
