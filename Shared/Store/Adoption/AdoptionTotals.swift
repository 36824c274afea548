public import Model
public import Redis

/// The counts of all brands' adoption that are not published for good yet, and how many orders and devices there are.
///
/// Services add what they counted, every few seconds; the packagers publish the sums of each day, and delete those of
/// days that are over. Not rebuilt from Kafka: a Redis that is lost begins at 0 with another `part`.
/// Bounded: brands × figures × days that are not published.
public struct AdoptionTotals: Sendable {
    /// A number that goes up and down.
    public enum Level: String, CaseIterable, Sendable { case orders, devices }

    /// The name of a number.
    public enum Name: Hashable, Sendable {
        case level(Level, OrderTypeIdentifier)
        /// The day as in `AdoptionKey`.
        case count(AdoptionFigure, OrderTypeIdentifier, day: String)

        /// `<type> <level>`, or `<type> <figure> <day>`.
        fileprivate var text: String {
            switch self {
            case .level(let level, let brand): "\(brand) \(level.rawValue)"
            case .count(let figure, let brand, let day): "\(brand) \(figure.rawValue) \(day)"
            }
        }

        fileprivate init?(_ text: String) {
            let parts = text.split(separator: " ").map(String.init)
            guard parts.count >= 2, let brand = try? OrderTypeIdentifier(parts[0]) else { return nil }
            if parts.count == 2, let level = Level(rawValue: parts[1]) {
                self = .level(level, brand)
            } else if parts.count == 3, let figure = AdoptionFigure(rawValue: parts[1]) {
                self = .count(figure, brand, day: parts[2])
            } else {
                return nil
            }
        }
    }

    /// All numbers at one moment.
    public struct Standing: Hashable, Sendable {
        /// Names this history of counts; empty if nothing was counted.
        public var part = ""
        /// True if a sweep counted orders and devices, so that the levels are more than differences.
        public var isCounted = false
        public var numbers: [Name: Int64] = [:]

        public init() {}

        /// Returns a level, which is not negative; nil if none was counted.
        public func level(_ level: Level, of brand: OrderTypeIdentifier) -> Int64? {
            self.isCounted ? max(0, self.numbers[.level(level, brand)] ?? 0) : nil
        }
    }

    private static let partField = "part"
    private static let countedField = "counted"
    private static let what = "counting adoption"

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Adds to numbers, all or none. After an error it is not known which.
    public func add(_ amounts: [Name: Int64]) async throws(StoreError) { try await self.add(amounts, isCounted: false) }

    private func add(_ amounts: [Name: Int64], isCounted: Bool) async throws(StoreError) {
        let pairs = amounts.flatMap { [RedisArgument.string($0.key.text), .integer($0.value)] }
        let addition = RedisInvocation(
            StoreScripts.addCounts, keys: [StoreKeys.adoption],
            arguments: [.string(String(UInt64.random(in: 0...UInt64.max), radix: 36)), isCounted ? "1" : "0"] + pairs)
        _ = try await self.redis.reply(to: addition, Self.what)
    }

    public func all() async throws(StoreError) -> Standing {
        let command = RedisCommand("HGETALL", .string(StoreKeys.adoption))
        guard let pairs = try await self.redis.reply(to: command, Self.what).array else {
            throw StoreError(.unavailable, "\(Self.what): an unexpected reply")
        }
        var standing = Standing()
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            switch pairs[index].text ?? "" {
            case Self.partField: standing.part = pairs[index + 1].text ?? ""
            case Self.countedField: standing.isCounted = true
            case let text: if let name = Name(text) { standing.numbers[name] = pairs[index + 1].integer }
            }
        }
        return standing
    }

    /// Corrects the levels by what a sweep counted. As differences: they may have changed since it began.
    ///
    /// - Parameters:
    ///   - standing: the numbers when the sweep began.
    ///   - counted: by level and brand; 0 where there is none.
    func correct(
        _ standing: Standing, _ counted: [Level: [OrderTypeIdentifier: Int64]]
    ) async throws(StoreError) {
        var differences: [Name: Int64] = [:]
        for (name, number) in standing.numbers { if case .level = name { differences[name] = -number } }
        for (level, brands) in counted {
            for (brand, number) in brands { differences[.level(level, brand), default: 0] += number }
        }
        try await self.add(differences.filter { $0.value != 0 }, isCounted: true)
    }

    /// Deletes counts that were published and change no more.
    public func delete(_ names: [Name]) async throws(StoreError) {
        guard !names.isEmpty else { return }
        let fields = RedisArgument.encoded(RedisEncodedArguments(names.map { .string($0.text) }))
        _ = try await self.redis.reply(to: RedisCommand("HDEL", .string(StoreKeys.adoption), fields), Self.what)
    }

    /// Claims the turn to publish.
    ///
    /// - Returns: false if it is not due, or another packager has it.
    public func claim(by owner: String, lease: Duration, period: Duration) async throws(StoreError) -> Bool {
        let claim = RedisInvocation(
            StoreScripts.claimSweep, keys: [StoreKeys.adoptionTurn],
            arguments: [.string(owner), .integer(lease.wholeMilliseconds), .integer(period.wholeMilliseconds)])
        return try await self.redis.reply(to: claim, Self.what).integer == 1
    }

    /// Ends the turn, and makes the next one due after a period.
    public func end(by owner: String, period: Duration) async throws(StoreError) {
        let end = RedisInvocation(
            StoreScripts.endSweep, keys: [StoreKeys.adoptionTurn],
            arguments: [.string(owner), .integer(period.wholeMilliseconds)])
        _ = try await self.redis.reply(to: end, Self.what)
    }
}

extension StoreScripts {
    /// Adds to numbers. KEYS: the hash. ARGV: the name of a history that begins, 1 if the levels are counted, then
    /// name, summand, …
    static let addCounts = RedisScript(
        """
        for index = 3, #ARGV, 2 do
          local sum = (tonumber(redis.call('HGET', KEYS[1], ARGV[index]) or '') or 0) + ARGV[index + 1]
          -- First, so that a Redis that is full takes it.
          redis.call('HDEL', KEYS[1], ARGV[index])
          if sum ~= 0 then redis.call('HSET', KEYS[1], ARGV[index], string.format('%.0f', sum)) end
        end
        if redis.call('HEXISTS', KEYS[1], 'part') == 0 then redis.call('HSET', KEYS[1], 'part', ARGV[1]) end
        if ARGV[2] == '1' then redis.call('HSET', KEYS[1], 'counted', '1') end
        """)
}
