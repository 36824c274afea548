/// How a fetcher reaches the world.
public struct FetcherConfiguration: Sendable {
    /// What may be connected to.
    public var addresses = AddressPolicy.publicOnly
    /// Roots in PEM that servers' certificates must lead to, instead of the system's; nil is the system's.
    public var rootsPEM: [UInt8]?
    /// Requests that are under way at once.
    public var concurrency = 8
    /// Requests that wait for a place.
    public var queueLimit = 256
    /// Names that are not looked up but have these addresses: what the DNS says to a test.
    ///
    /// The policy judges these addresses like any other.
    public var pinned: [Pin] = []

    public init() {}

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
