/// The limits and network settings of a fetcher.
public struct FetcherConfiguration: Sendable {
    /// The addresses that may be connected to.
    public var addresses = AddressPolicy.publicOnly
    /// The roots in PEM for servers' certificates; nil means the system's.
    public var rootsPEM: [UInt8]?
    /// The most requests in progress at once.
    public var concurrency = 8
    /// The most requests that wait for a place.
    public var queueLimit = 256
    /// Names that are not looked up but have these addresses: the DNS of a test.
    ///
    /// The policy judges these addresses like any other.
    public var pinned: [Pin] = []
    /// Hosts whose connections go elsewhere, though certificates must still be theirs: `host:port:address:port` each.
    /// For tests and development.
    public var detours: [String] = []

    /// Looks up a host; may block for long.
    var lookUp: @Sendable (_ host: String) -> NameLookups.Result = systemLookup

    public init() {}

    /// False for an address, and for a host that is pinned or has a detour.
    func isLookedUp(_ origin: FetchOrigin) -> Bool {
        !(IPAddress(origin.host) != nil || origin.host.hasPrefix("[")
            || self.pinned.contains { $0.host == origin.host && $0.port == origin.port }
            || self.detours.contains { $0.hasPrefix("\(origin.host):\(origin.port):") })
    }

    /// One name with its address.
    public struct Pin: Hashable, Sendable {
        public let host: String
        public let port: Int
        public let address: IPAddress

        public init(host: String, port: Int, address: IPAddress) {
            self.host = host
            self.port = port
            self.address = address
        }
    }
}
