/// Keys that share a worker's capacity, and wait together: those of one order type.
struct KeyGroup: Hashable, Sendable {
    /// The part of its keys before the `/`.
    let name: String
    /// The reason why all of its work waits; nil: it does not.
    let awaits: String?
}

/// The groups that a worker knows, by number.
///
/// Bounded by the number of groups ever named: all other keys, whatever they are, form one group, `unknown`.
struct KeyGroups: Sendable {
    /// The group of keys that belong to no known group.
    static let unknown = 0

    private(set) var names = ["other"]
    private var numbers: [ArraySlice<UInt8>: Int] = [:]
    private var awaited: [Int: String] = [:]
    /// Groups that became known while records of `unknown`, some of them theirs, were deferred: their keys remain there
    /// until all of those are resumed, so that each key keeps its order.
    private var latecomers: Set<Int> = []
    /// The number of present groups, `unknown` apart.
    private(set) var count = 0
    /// The group of the last key, since consecutive keys often belong to one.
    private var last: (name: ArraySlice<UInt8>, number: Int)?

    /// True if there is more than one group, so that none may take everything.
    var isShared: Bool { self.count > 1 }

    /// Sets the present groups.
    ///
    /// - Parameter unknownWait: true if records of `unknown` are deferred.
    mutating func update(_ groups: [KeyGroup], unknownWait: Bool) {
        self.last = nil
        if !unknownWait { self.latecomers = [] }
        self.awaited = [:]
        var current: Set<Int> = []
        for group in groups {
            let name = ArraySlice(group.name.utf8)
            let number = self.numbers[name] ?? self.names.count
            if number == self.names.count {
                self.names.append(group.name)
                self.numbers[name] = number
                if unknownWait { self.latecomers.insert(number) }
            }
            current.insert(number)
            if let reason = group.awaits { self.awaited[number] = reason }
        }
        self.count = current.count
    }

    mutating func number(of key: [UInt8]?) -> Int {
        guard !self.numbers.isEmpty, let key, let end = key.firstIndex(of: UInt8(ascii: "/")) else {
            return Self.unknown
        }
        let name = key[..<end]
        if let last = self.last, last.name == name { return last.number }
        var number = self.numbers[name] ?? Self.unknown
        if self.latecomers.contains(number) { number = Self.unknown }
        self.last = (name, number)
        return number
    }

    /// The reason why all work of a group waits.
    func reason(_ number: Int) -> String? { self.awaited[number] }
}
