import NIOPosix
public import Redis

extension RedisServer {
    /// Returns a client.
    /// - Parameter deadline: the time for a command. It is long since a busy machine stops servers for seconds.
    public func client(deadline: Duration = .seconds(20)) throws -> RedisClient {
        var configuration = try RedisConfiguration(url: self.url)
        configuration.commandDeadline = deadline
        return RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
    }
}
