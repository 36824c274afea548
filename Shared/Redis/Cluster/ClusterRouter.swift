import NIOCore

/// The links of one event loop to the nodes of a cluster. Runs on that loop only.
///
/// Thin: `ScatteredPipeline` decides where each command goes and what is sent again, `MapRefresh` when nodes are asked,
/// `SlotMap` which master serves a slot; this keeps one link per node and the requests that belong to none.
/// Bounded: one link per master (and for a while one to a node that a redirection names), the commands that wait here
/// by `RedisConfiguration.commandLimit`, redirections and repetitions by the command deadline: a command sent again
/// within it gets a whole deadline for its answer.
final class ClusterRouter {
    private let configuration: RedisConfiguration
    private let eventLoop: any EventLoop
    private let known: KnownServers
    private var map: SlotMap?
    private var links: [NodeAddress: RedisLink] = [:]
    private var refresh = MapRefresh()
    private var lastFailure: RedisError?
    /// Requests that wait for the first map, or for the next attempt.
    private var held: [ObjectIdentifier: ClusterRequest] = [:]
    private var heldCommands = 0
    private var isClosed = false

    init(_ configuration: RedisConfiguration, eventLoop: any EventLoop, known: KnownServers) {
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.known = known
    }

    /// Accepts a request. It is completed exactly once, possibly before this returns.
    func submit(_ request: RedisLink.Request) {
        guard !self.isClosed else {
            request.fail(RedisError(.closed, "sending a command: the client is closed"))
            return
        }
        let deadline = NIODeadline.now() + TimeAmount(self.configuration.commandDeadline)
        do throws(RedisError) {
            let pipeline = try ScatteredPipeline(request.commands, checks: request.checks)
            let own = ClusterRequest(pipeline, request, deadline: deadline)
            if let map {
                self.run(own, own.begin(on: map))
            } else {
                self.hold(own, until: deadline)
                self.wantMap()
            }
        } catch {
            request.fail(error)
        }
    }

    /// Makes connections before there is a request.
    func start() {
        guard !self.isClosed else { return }
        if let map {
            for master in map.serving { self.link(to: master).start() }
        } else {
            self.wantMap()
        }
    }

    /// Fails the pending requests and closes the connections.
    func close() -> EventLoopFuture<Void> {
        self.isClosed = true
        let links = self.links.values
        self.links = [:]
        let error = RedisError(.closed, "waiting for an answer: the client was closed")
        let held = self.held.values
        self.held = [:]
        for request in held { request.fail(error) }
        return .andAllComplete(links.compactMap { $0.close() }, on: self.eventLoop)
    }
}

// MARK: Requests

extension ClusterRouter {
    private func run(_ request: ClusterRequest, _ step: ScatteredPipeline.Step) {
        for (slot, node) in step.moves {
            // Recorded before the node answers: it may have less data than the one that served the slot.
            self.known.redirected(to: node)
            self.map?.move(slot, to: node)
        }
        if step.isRefreshWanted { self.wantMap() }
        for part in step.parts {
            let commands = request.pipeline.commands(of: part)
            let completion: (RedisLink.Request.Outcome) -> Void = { self.ended(request, part, $0) }
            self.link(to: part.node).submit(RedisLink.Request(commands: commands, completion: .closure(completion)))
        }
        guard !request.isDone else { return }
        if let answers = request.pipeline.answers {
            if let error = request.pipeline.totalFailure { request.fail(error) } else { request.succeed(answers) }
        } else if step.mustWait {
            self.postpone(request)
        }
    }

    private func ended(
        _ request: ClusterRequest, _ part: ScatteredPipeline.Part, _ outcome: RedisLink.Request.Outcome
    ) {
        guard !request.isDone else { return }
        guard let map, !self.isClosed else {
            request.fail(RedisError(.closed, "waiting for an answer: the client was closed"))
            return
        }
        switch outcome {
        case .answers(let answers): self.run(request, request.pipeline.received(answers, of: part, on: map))
        case .unsent:
            request.pipeline.withdrawn(part)
            self.run(request, ScatteredPipeline.Step(mustWait: true))
        case .failed(let error):
            request.pipeline.failed(part, error)
            self.run(request, ScatteredPipeline.Step())
        }
    }

    /// Retries postponed commands: soon, then less often, until the deadline.
    private func postpone(_ request: ClusterRequest) {
        guard self.held[ObjectIdentifier(request)] == nil else { return }
        let now = NIODeadline.now()
        guard now < request.deadline else {
            request.pipeline.giveUp()
            if let answers = request.pipeline.answers { request.succeed(answers) }
            return
        }
        request.attempts += 1
        let delay = TimeAmount.milliseconds(10) * (1 << min(request.attempts, 4))
        self.hold(request, until: min(now + delay, request.deadline))
    }

    private func hold(_ request: ClusterRequest, until deadline: NIODeadline) {
        let commands = request.pipeline.commands.count
        guard commands <= self.configuration.commandLimit - self.heldCommands else {
            let found = "\(self.heldCommands) wait for the cluster"
            request.fail(RedisError(.queueFull, "sending \(commands) commands: \(found)"))
            return
        }
        self.heldCommands += commands
        self.held[ObjectIdentifier(request)] = request
        self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.release(request) }
    }

    private func release(_ request: ClusterRequest) {
        guard self.held.removeValue(forKey: ObjectIdentifier(request)) != nil else { return }
        self.heldCommands -= request.pipeline.commands.count
        guard !request.isDone else { return }
        guard let map else {
            let cause = self.lastFailure.map { " (\($0.message))" } ?? ""
            let code: RedisError.Code = self.lastFailure?.code == .unsupported ? .unsupported : .connection
            let error = RedisError(code, "waiting for the cluster's slots: none in time\(cause)")
            request.fail(error)
            return
        }
        self.run(request, request.hasBegun ? request.pipeline.resume(on: map) : request.begin(on: map))
    }
}

// MARK: The map

extension ClusterRouter {
    /// Adopts a new map: requests that waited for one continue, and commands not yet written to nodes that no longer
    /// serve a slot go to the node that does.
    func adopt(_ map: SlotMap) {
        self.map = map
        self.known.learned(map)
        let serving = Set(map.serving)
        for (node, link) in self.links where !serving.contains(node) { link.giveUpWaiting() }
        self.sweep()
        for master in serving { self.link(to: master).start() }
        for request in Array(self.held.values) where !request.hasBegun { self.release(request) }
    }

    /// Closes links to nodes that no longer serve a slot, once nothing is in flight there.
    private func sweep() {
        guard let map, !self.isClosed else { return }
        let serving = Set(map.serving)
        var remaining = false
        for (node, link) in self.links where !serving.contains(node) {
            guard link.isIdle else {
                remaining = true
                continue
            }
            self.links[node] = nil
            _ = link.close()
        }
        guard remaining else { return }
        let pause = TimeAmount(self.configuration.commandDeadline)
        self.eventLoop.assumeIsolated().scheduleTask(in: pause) { self.sweep() }
    }

    private func wantMap() {
        guard !self.isClosed else { return }
        switch self.refresh.wanted(now: .now()) {
        case .nothing: break
        case .begin: self.askForMap()
        case .beginAt(let deadline): self.askForMap(at: deadline)
        }
    }

    private func askForMap(at deadline: NIODeadline) {
        self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.askForMap() }
    }

    /// Asks nodes with a connection first, then the other known ones, then those of the configuration.
    private func askForMap() {
        guard !self.isClosed else { return }
        let serving = (self.map?.serving ?? []).shuffled()
        let (ready, others) = (
            serving.filter { self.links[$0]?.isReady == true }, serving.filter { self.links[$0]?.isReady != true }
        )
        var candidates: [NodeAddress] = []
        for node in ready + others + (self.map?.replicas ?? []).shuffled() + self.configuration.addresses.shuffled()
        where !candidates.contains(node) && candidates.count < 100 { candidates.append(node) }
        for node in self.refresh.begin(candidates) { self.askForMap(node) }
    }

    private func askForMap(_ node: NodeAddress) {
        let question = RedisLink.Request(
            commands: [RedisCommand("CLUSTER", "SLOTS")],
            completion: .closure { outcome in self.mapAnswered(node, outcome) })
        self.link(to: node).submit(question)
    }

    private func mapAnswered(_ node: NodeAddress, _ outcome: RedisLink.Request.Outcome) {
        guard !self.isClosed else { return }
        do throws(RedisError) {
            switch outcome {
            case .failed(let error): throw error
            case .unsent: throw RedisError(.connection, "asking \(node) for the slots: no connection")
            case .answers(let answers):
                let map = try SlotMap(answers.first ?? .null, asked: node)
                if self.refresh.succeeded(now: .now()) { self.adopt(map) }
            }
        } catch {
            self.lastFailure = error
            switch self.refresh.failed(now: .now()) {
            case .wait, .late: break
            case .ask(let next): self.askForMap(next)
            case .beginAt(let deadline): self.askForMap(at: deadline)
            }
        }
    }

    private func link(to node: NodeAddress) -> RedisLink {
        if let link = self.links[node] { return link }
        let link = RedisLink(
            self.configuration, .member, to: .address(node), eventLoop: self.eventLoop
        ) { [weak self] event in
            guard let self else { return }
            switch event {
            case .prepared(_, let findings, let isFirst):
                self.known.connected(to: node, findings.serverIdentifier, isFirst: isFirst)
            case .lost(let error):
                self.lastFailure = error
                self.wantMap()
            case .outOfMemory: self.known.refusedForMemory()
            case .foundCluster: break
            }
        }
        self.links[node] = link
        return link
    }
}

/// One call in progress on a cluster, and the completion that waits for it. Belongs to one event loop.
final class ClusterRequest {
    var pipeline: ScatteredPipeline
    /// The time until which commands are sent again.
    let deadline: NIODeadline
    /// The number of times it was postponed.
    var attempts = 0
    private(set) var hasBegun = false
    private(set) var isDone = false
    private let request: RedisLink.Request

    init(_ pipeline: ScatteredPipeline, _ request: RedisLink.Request, deadline: NIODeadline) {
        self.pipeline = pipeline
        self.request = request
        self.deadline = deadline
    }

    /// Sends everything for the first time.
    func begin(on map: SlotMap) -> ScatteredPipeline.Step {
        self.hasBegun = true
        return self.pipeline.begin(on: map, choice: Int.random(in: 0...Int.max))
    }

    /// Completes the call. Only the first completion counts: parts that arrive later belong to a call that failed.
    func succeed(_ answers: [RedisValue]) {
        guard !self.isDone else { return }
        self.isDone = true
        self.request.succeed(answers)
    }

    /// Fails the call, under the same rule as `succeed`.
    func fail(_ error: RedisError) {
        guard !self.isDone else { return }
        self.isDone = true
        self.request.fail(error)
    }
}

/// The meaning of a node's answer for the routing of its command.
///
/// All but `answer` mean that the command was not executed, so that it may be sent again.
/// Source: Redis cluster specification, "Redirection and resharding", "Multi-keys operations"
enum Redirection: Hashable {
    /// It is the command's own answer.
    case answer
    /// The slot is served by that node from this moment on.
    case moved(slot: Int, to: NodeAddress)
    /// That node has this key already, but not all others of its slot: send this command alone there, after ASKING.
    case ask(NodeAddress)
    /// The keys are being moved, or the cluster is being reconfigured: send the command again a little later.
    case later

    /// - Parameter asked: the node that answered.
    init(_ reply: RedisValue, asked: NodeAddress) {
        guard case .error(let text) = reply else {
            self = .answer
            return
        }
        let words = text.split(separator: " ", maxSplits: 3)
        switch words.first {
        case "MOVED", "ASK":
            guard words.count >= 3, let slot = Int(words[1]), (0..<HashSlot.count).contains(slot),
                let node = NodeAddress(announced: words[2], asked: asked)
            else {
                self = .answer
                return
            }
            self = words[0] == "ASK" ? .ask(node) : .moved(slot: slot, to: node)
        case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN": self = .later
        default: self = .answer
        }
    }
}
