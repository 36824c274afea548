import NIOCore
import NIOPosix
import Synchronization

/// A listener on 127.0.0.1 that counts connections and never says a word.
public final class AcceptCounter: Sendable {
    public let port: Int
    private let channel: any Channel
    private let counted: Counted

    private final class Counted: Sendable {
        let connections = Mutex(0)
    }

    private init(channel: any Channel, counted: Counted) {
        self.channel = channel
        self.port = channel.localAddress?.port ?? 0
        self.counted = counted
    }

    /// Starts to listen on a free port.
    public static func start() async throws -> AcceptCounter {
        try TestServers.use("listener")
        let counted = Counted()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                counted.connections.withLock { $0 += 1 }
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return AcceptCounter(channel: channel, counted: counted)
    }

    /// The connections so far.
    public var connections: Int { self.counted.connections.withLock { $0 } }

    /// Closes the port.
    public func stop() async { try? await self.channel.close() }
}
