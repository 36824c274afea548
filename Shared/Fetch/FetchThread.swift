import Glibc

/// Starts the thread that a fetcher owns.
enum FetchThread {
    /// Runs `body` on a new detached thread; the caller must keep a means to end it.
    static func start(_ body: @escaping @Sendable () -> Void) throws(FetchError) {
        let box = unsafe Unmanaged.passRetained(Body(run: body))
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { context in
                guard let context = unsafe context else { return nil }
                // Takes back the +1 of passRetained: exactly one of this line and `release` runs.
                let body = unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                FetchThread.blockBrokenPipes()
                body.run()
                return nil
            }, box.toOpaque())
        guard code == 0 else {
            unsafe box.release()
            throw FetchError(.library, "starting a thread: code \(code)")
        }
        pthread_detach(thread)
    }

    /// Makes a write to a connection that the peer closed return an error instead of ending the process.
    ///
    /// Source: CURLOPT_NOSIGNAL(3): without signals libcurl leaves SIGPIPE to us
    private static func blockBrokenPipes() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        _ = unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(run: @escaping @Sendable () -> Void) { self.run = run }
    }
}
