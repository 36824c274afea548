import Foundation
import NIOCore
import NIOPosix
public import NIOSSL
import Synchronization

/// A TCP connection to 127.0.0.1 that sends any bytes and reads HTTP/1.1 answers, for tests of servers.
///
/// Nothing is corrected before sending, so that invalid requests can be sent. Every wait has a deadline.
public final class RawConnection: Sendable {
    /// An answer as received.
    public struct Response: Sendable {
        public let status: Int
        /// Names in lower case, in the order received.
        public let headers: [(name: String, value: String)]
        public let body: [UInt8]

        public var text: String { String(decoding: self.body, as: UTF8.self) }
        /// The only header of that name, or nil if there is none or more than one.
        public subscript(name: String) -> String? {
            let values = self.headers.filter { $0.name == name }.map(\.value)
            return values.count == 1 ? values[0] : nil
        }
    }

    /// The reason why an answer could not be read, with the received bytes.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    private struct State {
        var bytes: [UInt8] = []
        var hasEnded = false
    }

    private final class Collector: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let state = Mutex(State())

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let part = Self.unwrapInboundIn(data)
            self.state.withLock { $0.bytes += Array(part.readableBytesView) }
        }
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .some(.inputClosed) = event as? ChannelEvent { self.state.withLock { $0.hasEnded = true } }
        }
        func channelInactive(context: ChannelHandlerContext) { self.state.withLock { $0.hasEnded = true } }
        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            self.state.withLock { $0.hasEnded = true }
            context.close(promise: nil)
        }
    }

    private let channel: any Channel
    private let collector: Collector
    private let patience = Duration.seconds(20)

    private init(channel: any Channel, collector: Collector) {
        self.channel = channel
        self.collector = collector
    }

    /// Connects to a port of this machine.
    /// - Parameters:
    ///   - tls: speaks TLS to `localhost` if given.
    ///   - reads: false leaves input with the server until `startReading`.
    public static func open(
        port: Int, tls: NIOSSLContext? = nil, reads: Bool = true
    ) async throws -> RawConnection {
        try TestServers.use("server to connect to")
        let collector = Collector()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: tls == nil)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        let handler = try NIOSSLClientHandler(context: tls, serverHostname: "localhost")
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHandler(collector)
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return RawConnection(channel: channel, collector: collector)
    }

    /// Reads input from this call on.
    public func startReading() async throws { try await self.channel.setOption(.autoRead, value: true).get() }

    /// Closes the output; answers may still come.
    public func closeOutput() async throws { try await self.channel.close(mode: .output) }

    /// Sends a text when the system accepts it, without waiting for that.
    public func sendLater(_ text: String) { self.channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }

    /// Waits for the next bytes and returns them unparsed.
    public func bytes(_ count: Int) async throws -> [UInt8] {
        let deadline = ContinuousClock.now + self.patience
        while true {
            let (taken, hasEnded) = self.collector.state.withLock { state -> ([UInt8]?, Bool) in
                guard state.bytes.count >= count else { return (nil, state.hasEnded) }
                let taken = Array(state.bytes.prefix(count))
                state.bytes.removeFirst(count)
                return (taken, false)
            }
            if let taken { return taken }
            guard !hasEnded, deadline > .now else {
                throw Failure(description: "\(hasEnded ? "closed" : "too late") before \(count) bytes had come")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    /// True if the connection has ended, even with unread input.
    public var hasEnded: Bool { self.collector.state.withLock { $0.hasEnded } }

    public func send(_ text: String) async throws { try await self.send(Array(text.utf8)) }

    public func send(_ bytes: [UInt8]) async throws { try await self.channel.writeAndFlush(ByteBuffer(bytes: bytes)) }

    /// Waits for the next answer and returns it.
    /// - Parameter isHeadOnly: true if the request was HEAD, so that a length announces a body that does not follow.
    public func response(isHeadOnly: Bool = false) async throws -> Response {
        let deadline = ContinuousClock.now + self.patience
        while true {
            let (response, hasEnded, seen) = try self.collector.state.withLock { state in
                (try Self.take(from: &state.bytes, isHeadOnly: isHeadOnly), state.hasEnded, state.bytes)
            }
            if let response { return response }
            guard !hasEnded, deadline > .now else {
                let came = String(decoding: seen.prefix(500), as: UTF8.self)
                throw Failure(description: "\(hasEnded ? "closed" : "too late") without an answer; what came: \(came)")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    /// Sends a request and returns the next answer.
    public func exchange(_ request: String) async throws -> Response {
        try await self.send(request)
        return try await self.response(isHeadOnly: request.hasPrefix("HEAD "))
    }

    /// Returns true if the server closes within the deadline without any unread input.
    public func isClosedByServer(within limit: Duration = .seconds(10)) async throws -> Bool {
        let deadline = ContinuousClock.now + limit
        while deadline > .now {
            let (hasEnded, isEmpty) = self.collector.state.withLock { ($0.hasEnded, $0.bytes.isEmpty) }
            if hasEnded { return isEmpty }
            try await Task.sleep(for: .milliseconds(2))
        }
        return false
    }

    /// True if the connection is open and has no unread input.
    public var isQuiet: Bool { self.collector.state.withLock { $0.bytes.isEmpty && !$0.hasEnded } }

    public func close() async { try? await self.channel.close() }

    /// Connects, sends one request, closes the connection and returns the answer.
    public static func once(port: Int, _ request: String) async throws -> Response {
        let connection = try await Self.open(port: port)
        do {
            let response = try await connection.exchange(request)
            await connection.close()
            return response
        } catch {
            await connection.close()
            throw error
        }
    }

    private static func take(from bytes: inout [UInt8], isHeadOnly: Bool) throws -> Response? {
        guard let end = bytes.firstRange(of: [13, 10, 13, 10]) else { return nil }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else {
            throw Failure(description: "not a status line: \(lines[0])")
        }
        let headers = lines.dropFirst().map { line -> (name: String, value: String) in
            let parts = line.split(separator: ":", maxSplits: 1).map(String.init)
            return (parts[0].lowercased(), (parts.count > 1 ? parts[1] : "").trimmingCharacters(in: .whitespaces))
        }
        let given = headers.first { $0.name == "content-length" }.flatMap { Int($0.value) }
        let hasBody = !isHeadOnly && status != 204 && status != 304 && status >= 200
        let length = hasBody ? given ?? 0 : 0
        guard bytes.count - end.upperBound >= length else { return nil }
        let body = Array(bytes[end.upperBound..<end.upperBound + length])
        bytes.removeSubrange(..<(end.upperBound + length))
        return Response(status: status, headers: headers, body: body)
    }
}
