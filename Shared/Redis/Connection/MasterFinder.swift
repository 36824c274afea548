import NIOCore

/// The search for the master's address at the sentinels. Runs on one event loop only.
///
/// They are asked one after another, beginning with the one that answered last; each has the time allowed for a
/// connection. A sentinel's answer may be outdated: the link asks the server for its role, and asks again here if that
/// is a replica.
/// Source: Redis, "Guidelines for Redis clients with support for Redis Sentinel"
final class MasterFinder {
    private let configuration: RedisConfiguration
    private let eventLoop: any EventLoop
    private let masterName: String
    private var sentinels: [NodeAddress]
    private var link: RedisLink?
    private var isClosed = false

    init(_ configuration: RedisConfiguration, masterName: String, eventLoop: any EventLoop) {
        var own = configuration
        own.commandDeadline = configuration.connectDeadline
        self.configuration = own
        self.eventLoop = eventLoop
        self.masterName = masterName
        self.sentinels = configuration.addresses
    }

    /// Finds the master's address; `completion` is called once, on the loop, unless the finder is closed first.
    func find(_ completion: @escaping (Result<NodeAddress, RedisError>) -> Void) {
        self.ask(0, lastFailure: nil, completion)
    }

    /// Ends the search without calling the completion.
    func close() {
        self.isClosed = true
        self.endLink()
    }

    private func ask(
        _ index: Int, lastFailure: RedisError?, _ completion: @escaping (Result<NodeAddress, RedisError>) -> Void
    ) {
        guard !self.isClosed else { return }
        guard index < self.sentinels.count else {
            let cause = lastFailure?.message ?? "there is none"
            completion(.failure(RedisError(.connection, "asking the sentinels for \(self.masterName): \(cause)")))
            return
        }
        let sentinel = self.sentinels[index]
        var isOver = false
        let end = { (result: Result<NodeAddress, RedisError>) in
            guard !isOver else { return }
            isOver = true
            self.endLink()
            switch result {
            case .success(let master):
                self.sentinels.swapAt(0, index)
                completion(.success(master))
            case .failure(let error): self.ask(index + 1, lastFailure: error, completion)
            }
        }
        let link = RedisLink(
            self.configuration, .sentinel, to: .address(sentinel), eventLoop: self.eventLoop
        ) { event in
            switch event {
            case .lost(let error): end(.failure(error))
            case .prepared, .outOfMemory, .foundCluster: break
            }
        }
        self.link = link
        let question = RedisCommand("SENTINEL", "get-master-addr-by-name", .string(self.masterName))
        link.submit(
            RedisLink.Request(
                commands: [question],
                completion: .closure { outcome in
                    switch outcome {
                    case .answers(let answers): end(Self.address(answers.first ?? .null, sentinel))
                    case .failed(let error): end(.failure(error))
                    case .unsent: end(.failure(RedisError(.connection, "asking \(sentinel): given up")))
                    }
                }))
    }

    /// Source: SENTINEL get-master-addr-by-name: host and port, or null for a name that it does not watch
    private static func address(_ reply: RedisValue, _ sentinel: NodeAddress) -> Result<NodeAddress, RedisError> {
        if let error = reply.serverError { return .failure(RedisError(.connection, "\(sentinel): \(error.message)")) }
        guard let parts = reply.array else { return .failure(RedisError(.connection, "\(sentinel) does not know it")) }
        guard parts.count == 2, let host = parts[0].text, !host.isEmpty, let port = parts[1].integer,
            (1...65535).contains(port)
        else { return .failure(RedisError(.protocol, "\(sentinel): host and port were expected")) }
        return .success(NodeAddress(host: host, port: Int(port)))
    }

    private func endLink() {
        let link = self.link
        self.link = nil
        _ = link?.close()
    }
}
