import Dispatch
import Glibc
import Synchronization

/// A child with the thread that owns it, for callers that must not block.
///
/// Owner: its thread, from the start of the child to its end. Thread: any may call.
public final class SandboxWorker: Sendable {
    private struct Request {
        let content: [UInt8]
        let count: Int
        let answering: (@Sendable ([UInt8]) -> [UInt8])?
        let answer: CheckedContinuation<SandboxExchange, Never>
    }

    private struct State {
        var requests: [Request] = []
        var isClosed = false
        var isGone = false
        var closing: [CheckedContinuation<Void, Never>] = []
        var starting: [CheckedContinuation<Result<Int32, SandboxError>, Never>] = []
        var start: Result<Int32, SandboxError>?
    }

    private let state = Mutex(State())
    private let wakes = DispatchSemaphore(value: 0)

    /// Starts the child on a thread of its own.
    public init(_ sandbox: Sandbox) {
        let isStarted = SandboxThread.start { self.run(sandbox) }
        if !isStarted { self.finish(.failure(SandboxError(description: "the system refuses a thread"))) }
    }

    /// Waits until the child's wall is closed, and returns its identifier.
    public func ready() async throws(SandboxError) -> Int32 {
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<_, Never>) in
            let known = self.state.withLock { state in
                if state.start == nil { state.starting.append(continuation) }
                return state.start
            }
            if let known { continuation.resume(returning: known) }
        }
        return try result.get()
    }

    /// As that of `SandboxProcess`; requests are answered one after another.
    public func exchange(
        _ request: [UInt8], answers count: Int = 1, answering: (@Sendable ([UInt8]) -> [UInt8])? = nil
    ) async -> SandboxExchange {
        await withCheckedContinuation { continuation in
            let isTaken = self.state.withLock { state in
                guard !state.isClosed else { return false }
                state.requests.append(
                    Request(content: request, count: count, answering: answering, answer: continuation))
                return true
            }
            if isTaken {
                self.wakes.signal()
            } else {
                continuation.resume(returning: SandboxExchange(answers: [], end: .absent("it is closed")))
            }
        }
    }

    /// Ends the child, after the request that is being answered, and waits until it is gone.
    public func close() async {
        await withCheckedContinuation { continuation in
            let isGone = self.state.withLock { state in
                state.isClosed = true
                if !state.isGone { state.closing.append(continuation) }
                return state.isGone
            }
            self.wakes.signal()
            if isGone { continuation.resume() }
        }
    }

    private func run(_ sandbox: Sandbox) {
        do throws(SandboxError) {
            var process = try SandboxProcess.started(sandbox)
            self.started(.success(process.identifier))
            while let request = self.next() {
                let result = process.exchange(
                    request.content, answers: request.count, answering: request.answering)
                request.answer.resume(returning: result)
            }
            _ = consume process
            self.finish(nil)
        } catch {
            self.finish(.failure(error))
        }
    }

    /// Waits for the next request; nil when there will be none.
    private func next() -> Request? {
        while true {
            let (request, isClosed) = self.state.withLock { state in
                (state.requests.isEmpty ? nil : state.requests.removeFirst(), state.isClosed)
            }
            if request != nil || isClosed { return request }
            self.wakes.wait()
        }
    }

    private func started(_ result: Result<Int32, SandboxError>) {
        let waiting = self.state.withLock { state in
            state.start = state.start ?? result
            defer { state.starting = [] }
            return state.starting
        }
        for continuation in waiting { continuation.resume(returning: result) }
    }

    /// - Parameter failure: why the child was not started.
    private func finish(_ failure: Result<Int32, SandboxError>?) {
        if let failure { self.started(failure) }
        let (requests, closing) = self.state.withLock { state in
            (state.isClosed, state.isGone) = (true, true)
            defer { (state.requests, state.closing) = ([], []) }
            return (state.requests, state.closing)
        }
        let reason = if case .failure(let error)? = failure { "\(error)" } else { "it is closed" }
        for request in requests {
            request.answer.resume(returning: SandboxExchange(answers: [], end: .absent(reason)))
        }
        for continuation in closing { continuation.resume() }
    }
}

/// A detached thread.
private enum SandboxThread {
    private final class Body {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// - Returns: false if the system refuses it.
    static func start(_ run: @escaping @Sendable () -> Void) -> Bool {
        let box = unsafe Unmanaged.passRetained(Body(run))
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { context in
                // Takes back the +1 of passRetained above: exactly one of this line and `release` runs.
                if let context = unsafe context {
                    unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
                }
                return nil
            }, box.toOpaque())
        if code == 0 { pthread_detach(thread) } else { unsafe box.release() }
        return code == 0
    }
}
