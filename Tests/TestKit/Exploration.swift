import NIOPosix
public import Redis

/// A system whose worlds are explored: all that is there between two steps is one world.
///
/// The steps run real code on a real system, which the explorer brings into a world before each of them.
public protocol ExploredModel: Sendable {
    associatedtype World: Sendable
    associatedtype Step: Sendable, CustomStringConvertible
    /// The facts that are read of a world once, before the steps that follow it.
    associatedtype Sight: Sendable

    var start: World { get }

    /// Brings the system into a world.
    func put(_ world: World) async throws

    /// Reads what is needed to judge the steps from the world that the system is in.
    func look(at world: World) async throws -> Sight

    /// Returns the steps that may follow.
    func steps(in world: World) -> [Step]

    /// Takes a step from the world that the system is in.
    ///
    /// - Returns: the next world, and the rule that was broken, if one was.
    func take(_ step: Step, from world: World, _ sight: Sight) async throws -> (world: World, broken: String?)

    /// Returns true if the system is in both worlds at once.
    func areInOneSystem(_ one: World, _ other: World) -> Bool

    /// Returns a text that two worlds share if, and only if, the same may follow.
    func name(of world: World) -> String
}

/// The result of exploring: all sequences of steps, each distinct world once, breadth first, up to the first violation.
public struct Exploration: Sendable, CustomStringConvertible {
    /// A rule that a sequence of steps broke. No shorter sequence breaks one.
    public struct Violation: Sendable, CustomStringConvertible {
        public let rule: String
        public let steps: [String]

        public var description: String { "\(self.rule) after: \(self.steps.joined(separator: ", "))" }
    }

    public private(set) var states = 1
    public private(set) var transitions = 0
    public private(set) var depth = 0
    /// True if there is no further world.
    public private(set) var isWhole = false
    public private(set) var seconds = 0.0
    public private(set) var violation: Violation?

    public var description: String {
        "\(self.states) states, \(self.transitions) transitions, \(self.depth) steps deep"
            + "\(self.isWhole ? ", all of them" : ""), \(Int(self.seconds.rounded())) s"
            + (self.violation.map { "; \($0)" } ?? "")
    }

    private struct Node<Model: ExploredModel> {
        let world: Model.World
        let parent: Int
        let step: Model.Step?
        let depth: Int
    }

    private init() {}

    /// Explores a model of what is in a Redis.
    ///
    /// - Parameters:
    ///   - url: of the server, which the model has alone.
    ///   - make: returns the model.
    public static func run<Model: ExploredModel>(
        on url: String, steps: Int, _ make: (RedisClient) throws -> Model
    ) async throws -> Exploration {
        var configuration = try RedisConfiguration(url: url)
        configuration.commandDeadline = .seconds(20)
        let redis = RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let result: Result<Exploration, any Error>
        do {
            result = .success(try await Self.run(try make(redis), steps: steps))
        } catch {
            result = .failure(error)
        }
        await redis.close()
        return try result.get()
    }

    /// - Parameter steps: the longest sequence.
    public static func run<Model: ExploredModel>(_ model: Model, steps: Int) async throws -> Exploration {
        let began = ContinuousClock.now
        var exploration = Exploration()
        var nodes = [Node<Model>(world: model.start, parent: -1, step: nil, depth: 0)]
        var seen: Set = [model.name(of: model.start)]
        func path(to index: Int, _ last: Model.Step) -> [String] {
            var (steps, at) = ([last.description], index)
            while at > 0 {
                if let step = nodes[at].step { steps.append(step.description) }
                at = nodes[at].parent
            }
            return steps.reversed()
        }
        var index = 0
        while index < nodes.count, exploration.violation == nil {
            let node = nodes[index]
            if node.depth >= steps { break }
            try await model.put(node.world)
            let sight = try await model.look(at: node.world)
            var isFresh = true
            for step in model.steps(in: node.world) {
                if !isFresh { try await model.put(node.world) }
                let (world, broken) = try await model.take(step, from: node.world, sight)
                isFresh = model.areInOneSystem(world, node.world)
                exploration.transitions += 1
                if let broken {
                    exploration.violation = Violation(rule: broken, steps: path(to: index, step))
                    break
                }
                guard seen.insert(model.name(of: world)).inserted else { continue }
                exploration.states += 1
                exploration.depth = node.depth + 1
                nodes.append(Node(world: world, parent: index, step: step, depth: node.depth + 1))
            }
            index += 1
        }
        exploration.isWhole = index == nodes.count && exploration.violation == nil
        exploration.seconds = Double((ContinuousClock.now - began) / .seconds(1))
        return exploration
    }
}
