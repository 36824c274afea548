/// Values by key, in the order of their last use. Each operation takes constant time.
///
/// A doubly linked list whose links are places in an array. A place is valid from `insert` to `remove`.
struct RecencyMap<Key: Hashable, Value> {
    private struct Node {
        /// Both are nil while the place is free.
        var key: Key?
        var value: Value?
        var newer: Int
        var older: Int
    }

    /// The end of the list in both directions, and a place without an element.
    private static var none: Int { -1 }

    private var nodes: [Node] = []
    private var places: [Key: Int] = [:]
    private var newest = Self.none
    private var oldest = Self.none
    private var free: [Int] = []

    var count: Int { self.places.count }

    /// Returns the place of a key; nil if it has no value.
    func place(of key: Key) -> Int? { self.places[key] }

    /// The place of the least recently used value; nil if there is none.
    var oldestPlace: Int? { self.oldest == Self.none ? nil : self.oldest }

    /// The value at a place, which may be changed but not set to nil.
    subscript(place: Int) -> Value? {
        _read { yield self.nodes[place].value }
        _modify { yield &self.nodes[place].value }
    }

    /// Notes that the value at a place was used.
    mutating func touch(_ place: Int) {
        guard place != self.newest else { return }
        self.unlink(place)
        self.linkAsNewest(place)
    }

    /// Adds a value, which counts as used. The key must have none.
    @discardableResult
    mutating func insert(_ value: Value, for key: Key) -> Int {
        let node = Node(key: key, value: value, newer: Self.none, older: Self.none)
        let place: Int
        if let reused = self.free.popLast() {
            place = reused
            self.nodes[place] = node
        } else {
            place = self.nodes.count
            self.nodes.append(node)
        }
        self.places[key] = place
        self.linkAsNewest(place)
        return place
    }

    /// Removes the value at a place; nil if there is none.
    @discardableResult
    mutating func remove(_ place: Int) -> Value? {
        guard let key = self.nodes[place].key, let value = self.nodes[place].value else { return nil }
        self.unlink(place)
        self.nodes[place].key = nil
        self.nodes[place].value = nil
        self.places[key] = nil
        self.free.append(place)
        return value
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older) = (self.nodes[place].newer, self.nodes[place].older)
        if newer == Self.none { self.newest = older } else { self.nodes[newer].older = older }
        if older == Self.none { self.oldest = newer } else { self.nodes[older].newer = newer }
    }

    private mutating func linkAsNewest(_ place: Int) {
        self.nodes[place].newer = Self.none
        self.nodes[place].older = self.newest
        if self.newest == Self.none { self.oldest = place } else { self.nodes[self.newest].newer = place }
        self.newest = place
    }
}
