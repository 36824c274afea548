import NIOCore
import NIOPosix
import Synchronization
import TestKit

/// A small HTTP proxy that supports CONNECT to 127.0.0.1, or one that misbehaves.
final class ConnectProxy: Sendable {
    /// The answer to CONNECT.
    enum Manner: Sendable {
        case tunnel(needs: String?)
        case say(String)
        case silence
        case close
    }

    private let manner: Manner
    private let heads = Mutex<[String]>([])
    private let listening = Mutex<(any Channel)?>(nil)
    private let channels = Mutex<[any Channel]>([])
    private let group: any EventLoopGroup

    /// The complete request heads that were received.
    var requests: [String] { self.heads.withLock { $0 } }
    var port: Int { self.listening.withLock { $0?.localAddress?.port } ?? 0 }

    init(group: any EventLoopGroup, _ manner: Manner) {
        self.group = group
        self.manner = manner
    }

    func start() async throws {
        try TestServers.use("proxy")
        let channel = try await ServerBootstrap(group: self.group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    self.channels.withLock { $0.append(channel) }
                    try channel.pipeline.syncOperations.addHandler(Head(self))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        self.listening.withLock { $0 = channel }
    }

    func stop() async {
        try? await self.listening.withLock { $0 }?.close().get()
        for channel in self.channels.withLock({ $0 }) { try? await channel.close().get() }
    }

    /// Reads the request head, acts according to the proxy's manner, then forwards bytes.
    private final class Head: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let proxy: ConnectProxy
        private var text = ""
        private var early = ByteBuffer()
        private var isWhole = false
        private var other: (any Channel)?

        init(_ proxy: ConnectProxy) { self.proxy = proxy }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = self.unwrapInboundIn(data)
            if self.isWhole {
                if let other = self.other { return other.writeAndFlush(bytes, promise: nil) }
                self.early.writeBuffer(&bytes)
                return
            }
            self.text += String(buffer: bytes)
            guard self.text.hasSuffix("\r\n\r\n") else { return }
            self.isWhole = true
            self.proxy.heads.withLock { $0.append(self.text) }
            switch self.proxy.manner {
            case .silence: break
            case .close: context.close(promise: nil)
            case .say(let words): self.say(words, context)
            case .tunnel(let needed):
                guard needed.map({ self.text.contains("proxy-authorization: Basic \($0)\r\n") }) ?? true else {
                    return self.say("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", context)
                }
                self.tunnel(context)
            }
        }

        func channelInactive(context: ChannelHandlerContext) { self.other?.close(promise: nil) }

        private func say(_ words: String, _ context: ChannelHandlerContext) {
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: words)), promise: nil)
        }

        private func tunnel(_ context: ChannelHandlerContext) {
            let port = self.text.split(separator: " ").dropFirst().first?.split(separator: ":").last.flatMap { Int($0) }
            let client = context.channel
            ClientBootstrap(group: context.eventLoop)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(Pass(client))
                    }
                }
                .connect(host: "127.0.0.1", port: port ?? 0)
                .assumeIsolated()
                .whenComplete { result in
                    guard case .success(let channel) = result else {
                        return self.say("HTTP/1.1 502 Bad Gateway\r\n\r\n", context)
                    }
                    self.other = channel
                    self.say("HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n", context)
                    if self.early.readableBytes > 0 { channel.writeAndFlush(self.early, promise: nil) }
                }
        }
    }

    /// Forwards bytes in the other direction.
    private final class Pass: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let client: any Channel

        init(_ client: any Channel) { self.client = client }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.client.writeAndFlush(self.unwrapInboundIn(data), promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { self.client.close(promise: nil) }
    }
}
