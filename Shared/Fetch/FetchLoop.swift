import CCurl

/// The work of the fetcher's thread: takes jobs, drives their transfers, follows redirects, answers.
final class FetchLoop {
    private let queue: FetchQueue
    private let configuration: FetcherConfiguration
    /// The transfers in progress.
    private var running: [EasyHandle.Identity: Transfer] = [:]
    private var lookups = NameLookups()
    /// The jobs whose hosts are being looked up.
    private var resolving: [Hop] = []
    /// The time of the next search for those that have waited too long.
    private var nextSweep = ContinuousClock.now

    /// A job that is to make a connection, and the time by which it must be made.
    private struct Hop {
        let job: FetchJob
        let connected: ContinuousClock.Instant
        var host: String { self.job.url.origin.host }
    }

    /// The longest wait, so that jobs in the queue time out promptly.
    private static let tickMilliseconds: Int32 = 250

    init(_ queue: FetchQueue, _ configuration: FetcherConfiguration) {
        self.queue = queue
        self.configuration = configuration
    }

    /// Runs until the queue is closed and every job has an answer.
    ///
    /// A multi handle that fails is replaced, and its transfers end; one that fails at once ends the loop.
    func run() {
        do throws(FetchError) {
            while try self.runOnce() {}
        } catch {
            self.refuseWaiting(error)
        }
        self.queue.end()
    }

    /// Runs with one multi handle; returns true if it failed after it had worked.
    private func runOnce() throws(FetchError) -> Bool {
        let multi = try MultiHandle(
            connections: self.configuration.concurrency, descriptor: self.queue.descriptor)
        var hasWorked = false
        do throws(FetchError) {
            while try self.turn(multi) { hasWorked = true }
            return false
        } catch {
            self.drop(multi, error) { _ in true }
            guard hasWorked else { throw error }
            return true
        }
    }

    /// Does one round; returns false if it was the last.
    private func turn(_ multi: borrowing MultiHandle) throws(FetchError) -> Bool {
        let now = ContinuousClock.now
        let room = self.configuration.concurrency - self.running.count - self.resolving.count
        let work = self.queue.take(room: room, now: now)
        guard !work.isClosed else {
            let error = FetchError(.closed, "fetching: the fetcher was closed")
            for job in work.jobs { self.queue.finish(job, .failure(error)) }
            self.stop(multi, error)
            return false
        }
        for job in work.jobs {
            if work.cancelled.contains(job.ticket) {
                self.queue.finish(job, .failure(Self.cancelled))
            } else if job.deadline <= now {
                let error = FetchError(.timeout, "fetching from \(job.url.origin.host): waited too long for a place")
                self.queue.finish(job, .failure(error))
            } else {
                self.start(job, multi, now)
            }
        }
        for (host, result) in work.lookups { self.lookupEnded(host, result, multi, now) }
        self.sweep(now)
        if !work.cancelled.isEmpty {
            self.drop(multi, Self.cancelled) { work.cancelled.contains($0.ticket) }
        }
        try multi.turn(milliseconds: Self.tickMilliseconds)
        while let done = multi.nextDone() { self.hopEnded(done.easy, done.code, multi) }
        return true
    }

    private static let cancelled = FetchError(.cancelled, "fetching: cancelled")

    /// Begins a hop of a job with the look-up of its host, if it needs one.
    private func start(_ job: FetchJob, _ multi: borrowing MultiHandle, _ now: ContinuousClock.Instant) {
        let hop = Hop(job: job, connected: min(job.deadline, now + job.request.connectTimeout))
        guard self.configuration.isLookedUp(job.url.origin) else { return self.begin(hop, [], multi, now) }
        switch self.lookups.ask(hop.host, now: now) {
        case .known(let result): self.proceed(hop, result, multi, now)
        case .wait: self.resolving.append(hop)
        case .begin:
            self.resolving.append(hop)
            do throws(FetchError) {
                try FetchThread.start { [queue, lookUp = self.configuration.lookUp, host = hop.host] in
                    queue.lookedUp(host, lookUp(host))
                }
            } catch {
                self.lookupEnded(hop.host, .failure(error), multi, now)
            }
        }
    }

    private func lookupEnded(
        _ host: String, _ result: NameLookups.Result, _ multi: borrowing MultiHandle, _ now: ContinuousClock.Instant
    ) {
        self.lookups.ended(host, result, now: now)
        let hops = self.resolving.filter { $0.host == host }
        self.resolving.removeAll { $0.host == host }
        for hop in hops { self.proceed(hop, result, multi, now) }
    }

    private func proceed(
        _ hop: Hop, _ result: NameLookups.Result, _ multi: borrowing MultiHandle, _ now: ContinuousClock.Instant
    ) {
        switch result {
        case .success(let addresses): self.begin(hop, addresses, multi, now)
        case .failure(let error): self.queue.finish(hop.job, .failure(error))
        }
    }

    /// Ends the jobs whose look-up takes too long.
    private func sweep(_ now: ContinuousClock.Instant) {
        guard !self.resolving.isEmpty, now >= self.nextSweep else { return }
        self.nextSweep = now + .milliseconds(50)
        let late = self.resolving.filter { $0.connected <= now }
        self.resolving.removeAll { $0.connected <= now }
        for hop in late {
            self.queue.finish(hop.job, .failure(FetchError(.timeout, "looking up \(hop.host): no answer in time")))
        }
    }

    private func begin(
        _ hop: Hop, _ addresses: [IPAddress], _ multi: borrowing MultiHandle, _ now: ContinuousClock.Instant
    ) {
        do throws(FetchError) {
            let transfer = try Transfer(
                hop.job, self.configuration, addresses: addresses, connected: hop.connected, now: now)
            try multi.add(transfer.easy)
            self.running[transfer.easy.identity] = transfer
        } catch {
            self.queue.finish(hop.job, .failure(error))
        }
    }

    private func hopEnded(_ easy: EasyHandle.Identity, _ code: CURLcode, _ multi: borrowing MultiHandle) {
        guard let transfer = self.takeOut(easy, multi) else { return }
        var job = transfer.job
        switch transfer.step(after: code) {
        case .done(let response): self.queue.finish(transfer.job, .success(response))
        case .failed(let error): self.queue.finish(transfer.job, .failure(error))
        case .reconnect:
            job.request.isAlone = true
            self.start(job, multi, .now)
        case .redirect(let url):
            job.url = url
            job.redirects += 1
            self.start(job, multi, .now)
        }
    }

    /// Removes a transfer from libcurl; none of its callbacks runs after that.
    private func takeOut(_ easy: EasyHandle.Identity, _ multi: borrowing MultiHandle) -> Transfer? {
        guard let transfer = self.running.removeValue(forKey: easy) else { return nil }
        multi.remove(transfer.easy)
        return transfer
    }

    /// Ends the transfers of some jobs. Each caller learns if its request may have been sent.
    private func drop(_ multi: borrowing MultiHandle, _ error: FetchError, where matches: (FetchJob) -> Bool) {
        for hop in self.resolving where matches(hop.job) { self.queue.finish(hop.job, .failure(error)) }
        self.resolving.removeAll { matches($0.job) }
        for (easy, transfer) in self.running where matches(transfer.job) {
            var error = error
            error.mayHaveBeenSent = transfer.easy.mayHaveSent
            _ = self.takeOut(easy, multi)
            self.queue.finish(transfer.job, .failure(error))
        }
    }

    private func stop(_ multi: borrowing MultiHandle, _ error: FetchError) {
        self.refuseWaiting(error)
        self.drop(multi, error) { _ in true }
    }

    private func refuseWaiting(_ error: FetchError) {
        self.queue.close()
        for job in self.queue.take(room: 0, now: .now).jobs { self.queue.finish(job, .failure(error)) }
    }
}

/// The step that follows a hop.
enum FetchStep: Hashable, Sendable {
    case done(FetchResponse)
    /// Request the same URL on a connection of its own: the kept one leads to an address that is not allowed.
    case reconnect
    /// Request this URL next.
    case redirect(FetchURL)
    case failed(FetchError)

    /// Judges one complete answer.
    ///
    /// - Parameters:
    ///   - url: the URL that was requested.
    ///   - redirects: the number of redirects that led there.
    ///   - retryAfterSeconds: the `Retry-After` of the answer, 0 if there was none.
    static func after(
        status: Int, headers: ResponseHeaders, body: [UInt8], url: FetchURL, redirects: Int, request: FetchRequest,
        retryAfterSeconds: Int64
    ) -> FetchStep {
        if request.takesAnyStatus {
            var content = FetchedContent(
                body: body, entityTag: headers.entityTag, lastModified: headers.lastModified)
            content.status = status
            content.contentType = headers.contentType
            return .done(.content(content))
        }
        switch status {
        case 200:
            return .done(
                .content(
                    FetchedContent(body: body, entityTag: headers.entityTag, lastModified: headers.lastModified)))
        // Only a conditional request can be answered with this.
        case 304 where request.entityTag != nil || request.lastModified != nil: return .done(.notModified)
        // Source: RFC 9110 §15.4
        case 301, 302, 303, 307, 308:
            guard let location = headers.location else { break }
            guard redirects < request.redirectLimit else {
                return .failed(
                    FetchError(
                        .tooManyRedirects,
                        "fetching from \(url.origin.host): more than \(request.redirectLimit) redirects"))
            }
            do throws(FetchError) {
                return .redirect(try self.admitted(try FetchURL(location, relativeTo: url), request))
            } catch {
                return .failed(error)
            }
        default: break
        }
        return .failed(
            FetchError(
                .status(status), "fetching from \(url.origin.host): status \(status)",
                retryAfterSeconds: retryAfterSeconds > 0 ? min(retryAfterSeconds, 86_400) : nil))
    }

    /// Returns the URL if the request allows its host.
    static func admitted(_ url: FetchURL, _ request: FetchRequest) throws(FetchError) -> FetchURL {
        guard request.allows(url.origin) else {
            throw FetchError(
                .hostNotAllowed, "fetching from \(url.origin.host), port \(url.origin.port): not an allowed host")
        }
        return url
    }
}
