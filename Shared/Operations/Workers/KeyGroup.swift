/// Keys that share in what a worker has in hand, and wait together: those of one order type.
public struct KeyGroup: Hashable, Sendable {
    /// The part of its keys before the `/`.
    public let name: String
    /// Why all of its work waits; nil: it does not.
    public let awaits: String?

    public init(name: String, awaits: String?) {
        self.name = name
        self.awaits = awaits
    }
}

/// The groups that a worker knows, by number.
///
/// Bounded by the groups that ever were named: all other keys, whatever they are, are strangers and one group together.
struct KeyGroups: Sendable {
    /// Keys of nobody that is known.
    static let strangers = 0

    private(set) var names = ["other"]
    private var numbers: [ArraySlice<UInt8>: Int] = [:]
    private var awaited: [Int: String] = [:]
    /// Groups that became known while strangers were put off, among whom are keys of theirs: they stay strangers until
    /// all of those are taken up, so that each key keeps its order.
    private var latecomers: Set<Int> = []
    /// The number of groups that there are now, strangers apart.
    private(set) var count = 0
    /// The group of the last key, since many in a row are of one.
    private var last: (name: ArraySlice<UInt8>, number: Int)?

    /// With one group nobody has to be kept from taking all.
    var isShared: Bool { self.count > 1 }

    /// Takes in which groups there are.
    ///
    /// - Parameter strangersWait: records of strangers are put off.
    mutating func update(_ groups: [KeyGroup], strangersWait: Bool) {
        self.last = nil
        if !strangersWait { self.latecomers = [] }
        self.awaited = [:]
        var current: Set<Int> = []
        for group in groups {
            let name = ArraySlice(group.name.utf8)
            let number = self.numbers[name] ?? self.names.count
            if number == self.names.count {
                self.names.append(group.name)
                self.numbers[name] = number
                if strangersWait { self.latecomers.insert(number) }
            }
            current.insert(number)
            if let reason = group.awaits { self.awaited[number] = reason }
        }
        self.count = current.count
    }

    mutating func number(of key: [UInt8]?) -> Int {
        guard !self.numbers.isEmpty, let key, let end = key.firstIndex(of: UInt8(ascii: "/")) else {
            return Self.strangers
        }
        let name = key[..<end]
        if let last = self.last, last.name == name { return last.number }
        var number = self.numbers[name] ?? Self.strangers
        if self.latecomers.contains(number) { number = Self.strangers }
        self.last = (name, number)
        return number
    }

    /// Why all work of a group waits.
    func reason(_ number: Int) -> String? { self.awaited[number] }
}
