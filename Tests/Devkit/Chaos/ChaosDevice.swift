import Model

/// A device that exists throughout a run. It retries requests that are refused temporarily, and records results that a
/// device must never see.
///
/// These are a 401 for a valid token, an answer that breaks the protocol, a package that is older than an earlier one,
/// and a package that Wallet would refuse.
actor ChaosDevice {
    /// The time for which requests may be refused before the device gives up, which counts as a difference.
    private static let patience = Duration.seconds(180)
    /// Every n-th round requests a package that the device already has, so that an older one cannot hide behind 304.
    private static let unconditional = 4

    nonisolated let wallet: WalletDevice
    /// True if the device also polls from time to time, as Wallet does, rather than only after a push.
    nonisolated let isPolling: Bool
    private nonisolated let journal: APNSJournal
    private nonisolated let tally: ChaosTally
    private nonisolated let forgetting: ChaosForgetting
    private nonisolated let wakes: AsyncStream<Void>
    private nonisolated let waker: AsyncStream<Void>.Continuation
    private var fresh: [(order: String, token: String)] = []
    private(set) var registered: [String] = []
    private var rounds = 0
    private(set) var isBusy = false

    init(
        _ wallet: WalletDevice, isPolling: Bool, journal: APNSJournal, tally: ChaosTally, forgetting: ChaosForgetting
    ) {
        self.wallet = wallet
        self.isPolling = isPolling
        self.journal = journal
        self.tally = tally
        self.forgetting = forgetting
        (self.wakes, self.waker) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Adds an order for which the customer has paid, and makes the device request it.
    func add(_ order: String, token: String) {
        self.fresh.append((order, token))
        self.wake()
    }

    /// Drops an order that is forgotten.
    func leave(_ order: String) {
        self.fresh.removeAll { $0.order == order }
        self.registered.removeAll { $0 == order }
    }

    /// Makes the device check for updates.
    nonisolated func wake() { self.waker.yield() }

    /// Ends `run` after the requests in progress.
    nonisolated func finish() {
        self.journal.unsubscribe(self.wallet.pushToken)
        self.waker.finish()
    }

    /// Handles pushes and wake-ups until `finish`.
    func run() async {
        let pushes = self.journal.subscribe(self.wallet.pushToken)
        await withTaskGroup { group in
            group.addTask { for await _ in pushes { self.wake() } }
            for await _ in self.wakes {
                self.isBusy = true
                await self.act()
                self.isBusy = false
            }
        }
    }

    private func act() async {
        self.rounds += 1
        while !self.fresh.isEmpty {
            let (order, token) = self.fresh.removeFirst()
            await self.wallet.add(order: order, token: token)
            guard await self.firstFetch(order) else { continue }
            guard await self.patiently("register", order, { _ = try await self.wallet.register(order) }) else {
                continue
            }
            if !self.registered.contains(order) { self.registered.append(order) }
        }
        guard !self.registered.isEmpty else { return }
        await self.patiently("list", "any") {
            let before = await self.wallet.unauthorizedFetches.count
            _ = try await self.wallet.react()
            let unauthorized = await self.wallet.unauthorizedFetches.dropFirst(before)
            guard unauthorized.allSatisfy({ self.forgetting.allowsUnauthorized($0) }) else {
                throw ToolError(.unauthorized, "fetching what was listed: status 401")
            }
        }
        guard self.rounds % Self.unconditional == 0 else { return }
        let order = self.registered[self.rounds / Self.unconditional % self.registered.count]
        await self.patiently("fetch", order) {
            try await self.fetch(order, isConditional: false)
        }
    }

    private func firstFetch(_ order: String) async -> Bool {
        await self.patiently("fetch", order) { try await self.fetch(order) }
    }

    /// - Throws: `.unavailable` after a 503, once its Retry-After (at most 5 s) has passed; `.unauthorized` for a 401.
    func fetch(_ order: String, isConditional: Bool = true) async throws(ToolError) {
        switch try await self.wallet.fetch(order, isConditional: isConditional) {
        case .version, .notModified: return
        case .unauthorized: throw ToolError(.unauthorized, "fetching \(order): status 401")
        case .unavailable(let seconds):
            try? await Task.sleep(for: .seconds(min(seconds, 5)))
            throw ToolError(.unavailable, "fetching \(order): status 503")
        }
    }

    /// Retries an action until it succeeds.
    /// - Returns: false if the device gave up, which is recorded.
    @discardableResult
    func patiently(
        _ kind: String, _ order: String, _ action: () async throws -> Void
    ) async -> Bool {
        let end = ContinuousClock.now + Self.patience
        var pause = Duration.milliseconds(100)
        while true {
            do {
                try await action()
                self.tally.count("answered.\(kind)")
                return true
            } catch let thrown {
                let error = thrown as? ToolError ?? ToolError(.check, "\(thrown)")
                switch error.code {
                case .unauthorized where self.forgetting.allowsUnauthorized(order):
                    self.tally.count("forgotten_401.\(kind)")
                    self.leave(order)
                    return false
                case .unauthorized:
                    self.tally.count("wrong_401.\(kind)")
                    self.tally.differ("device of order \(order): \(error), though its token is right")
                case .unavailable: self.tally.count("answered_503.\(kind)")
                case .connection, .closed, .timeout: self.tally.count("unanswered.\(kind)")
                case .protocol, .input, .file, .program, .check, .older:
                    guard error.code == .older else {
                        self.tally.count("wrong_answer.\(kind)")
                        self.tally.differ("device of order \(order): \(error)")
                        return false
                    }
                    // Only a packager can detect that Redis fell back. Until then, Wallet refuses the package.
                    if self.tally.hasFallen {
                        self.tally.count("older_package.fell_back")
                    } else {
                        self.tally.count("older_package.otherwise")
                        self.tally.differ("device of order \(order): \(error)")
                        return false
                    }
                }
                guard ContinuousClock.now < end, !Task.isCancelled else {
                    self.tally.differ("device of order \(order): gave up to \(kind) after \(Self.patience): \(error)")
                    return false
                }
            }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(2))
        }
    }
}
