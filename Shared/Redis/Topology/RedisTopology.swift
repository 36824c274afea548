/// The masters, as far as the client knows them.
public struct RedisTopology: Sendable {
    /// Those that serve slots, sorted by their names; empty for a single server.
    public let masters: [RedisMaster]
    /// One hash tag per master, in the order of `masters`; empty for a single server.
    ///
    /// A key with the tag `{hashTag}` is on that master, as long as the slot of the tag is not moved.
    public let hashTags: [String]
    /// The slots of each master as text, which changes when a slot has another master; empty for a single server.
    public let slots: String
    private let hashTagOfMaster: [NodeAddress: String]
    private let map: SlotMap?

    /// Makes the topology of a single server.
    init() {
        self.masters = []
        self.hashTags = []
        self.slots = ""
        self.hashTagOfMaster = [:]
        self.map = nil
    }

    init(_ map: SlotMap) {
        let hashTagOfMaster = map.hashTags
        let found = hashTagOfMaster.sorted { $0.key.description < $1.key.description }
        self.masters = found.map { RedisMaster($0.key) }
        self.hashTags = found.map(\.value)
        self.slots = map.runs
        self.hashTagOfMaster = hashTagOfMaster
        self.map = map
    }

    /// Returns the hash tag of the master that serves a key; nil for a single server, and for a slot that no master
    /// serves.
    public func hashTag(of key: String) -> String? {
        self.map?.master(of: HashSlot.of(key.utf8)).flatMap { self.hashTagOfMaster[$0] }
    }

    /// Returns the master that serves a key; nil as for `hashTag(of:)`.
    public func master(of key: String) -> RedisMaster? {
        self.map?.master(of: HashSlot.of(key.utf8)).map { RedisMaster($0) }
    }
}
