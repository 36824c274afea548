import Dispatch
import NIOCore
import NIOPosix
import Operations
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// The decision how long a server that stops takes connections.
@Suite struct DrainTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private let limits = Drain.Limits(most: .seconds(10), quiet: .seconds(5))

    @Test func itEndsEarlyWhenNobodyConnects() {
        let drain = Drain(self.limits, at: self.start)
        #expect(drain.next(at: self.start) == self.start + .seconds(5))
        #expect(drain.next(at: self.start + .seconds(5)) == nil)
    }

    @Test func connectionsProlongItUpToItsLimit() {
        var drain = Drain(self.limits, at: self.start)
        drain.used(at: self.start + .seconds(4))
        #expect(drain.next(at: self.start + .seconds(5)) == self.start + .seconds(9))
        drain.used(at: self.start + .seconds(8))
        #expect(drain.next(at: self.start + .seconds(9)) == self.start + .seconds(10))
        drain.used(at: self.start + .seconds(10))
        #expect(drain.next(at: self.start + .seconds(10)) == nil)
    }

    @Test func withoutTimeThereIsNone() {
        #expect(Drain(Drain.Limits(), at: self.start).next(at: self.start) == nil)
    }
}

/// A server that drains, seen by its clients.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct DrainWireTests {
    typealias Fixture = ServerFixture
    typealias Wire = HTTP2Wire

    private static let log = Wire.fields("POST", "/v1/log")

    /// Returns the options of a gateway that drains until it is cancelled.
    private static func draining(_ options: Fixture.Options = .init()) -> Fixture.Options {
        var options = options
        options.isCancelled = true
        options.edge = { [edge = options.edge] policy in
            edge(&policy)
            policy.drain = Drain.Limits(most: .seconds(600), quiet: .seconds(600))
        }
        return options
    }

    private func stop(_ fixture: Fixture) async throws {
        fixture.stop()
        let deadline = ContinuousClock.now + .seconds(20)
        while fixture.reasons.isEmpty {
            try #require(ContinuousClock.now < deadline, "it says that it stops")
            try await Task.sleep(for: .milliseconds(2))
        }
        #expect(fixture.reasons.map { $0.prefix { $0 != ":" } } == ["stopping"])
    }

    @Test func eachAnswerOfADrainingServerIsTheLastOfItsConnection() async throws {
        try await Fixture.with(Self.draining()) { fixture in
            let request = fixture.request("POST", "/v1/log", body: "[]")
            try await fixture.connected { busy in
                try await fixture.connected { idle in
                    for connection in [busy, idle] { #expect(try await connection.exchange(request).status == 200) }
                    try await self.stop(fixture)
                    let last = try await busy.exchange(request)
                    #expect(last.status == 200)
                    #expect(last["connection"] == "close")
                    #expect(try await busy.isClosedByServer())
                    let first = try await fixture.once("POST", "/v1/log", body: "[]")
                    #expect(first.status == 200)
                    #expect(first["connection"] == "close")
                    #expect(!idle.hasEnded, "a request may be on its way")
                    #expect(try await idle.exchange(request)["connection"] == "close")
                }
            }
        }
    }

    @Test func aDrainingServerAnswersNewHTTP2ConnectionsAndThenSendsThemAway() async throws {
        try await Fixture.with(Self.draining(try TLSSupport.options())) { fixture in
            try await fixture.http2 { early in
                #expect(try await early.exchange(1, Self.log, body: Array("[]".utf8)).status == 200)
                try await self.stop(fixture)
                #expect(try await early.frame(Wire.goAway).lastStream == UInt32(Int32.max))
                // The client has not confirmed yet that it knows.
                try await early.connection.send(try early.request(3, Self.log, body: Array("[]".utf8)))
                #expect(try await early.response(3).status == 200)
                #expect(try await early.frame(Wire.goAway).lastStream == 3)
            }
            try await fixture.http2 { late in
                #expect(try await late.exchange(1, Self.log, body: Array("[]".utf8)).status == 200)
                #expect(try await late.frame(Wire.goAway).errorCode == 0)
                let ping = try await late.frame(Wire.ping)
                try await late.connection.send(Wire.bytes(Wire.ping, flags: Wire.ack, ping.payload))
                #expect(try await late.frame(Wire.goAway).lastStream == 1)
                #expect(try await HTTP2Tests().ends(late))
            }
        }
    }

    @Test func afterTheDrainIdleConnectionsAndTheSocketAreClosed() async throws {
        var options = Fixture.Options()
        options.edge = { $0.drain = Drain.Limits(most: .milliseconds(300)) }
        try await Fixture.with(options) { fixture in
            try await fixture.connected { idle in
                #expect(try await idle.exchange(fixture.request("POST", "/v1/log", body: "[]")).status == 200)
                fixture.stop()
                #expect(try await idle.isClosedByServer())
                let deadline = ContinuousClock.now + .seconds(20)
                while let stranger = try? await RawConnection.open(port: fixture.port) {
                    await stranger.close()
                    try #require(ContinuousClock.now < deadline, "it goes on listening")
                }
            }
        }
    }

    /// The kernel has connections that the loop has not seen; closing the socket then would reset them.
    @Test func theSocketStaysUntilNoConnectionWaitsToBeAccepted() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let gate = TransportPolicy(metrics: TransportMetrics(factory: MetricsRegistry())).gate()
        let accepted = Counter()
        let listener = try await ServerBootstrap(group: group).serverChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandlers(gate.handler(), accepted)
            }
        }.bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let isConnected = DispatchSemaphore(value: 0)
        let drained = listener.eventLoop.flatSubmit {
            isConnected.wait()
            return gate.drain(listener, Drain.Limits(most: .nanoseconds(1), last: .seconds(1)))
        }
        var early = [RawConnection]()
        for _ in 0..<3 { early.append(try await RawConnection.open(port: port)) }
        isConnected.signal()
        try await listener.closeFuture.get()
        #expect(accepted.count.load(ordering: .relaxed) == 3)
        for connection in early { await connection.close() }
        try await drained.get()
        try await group.shutdownGracefully()
    }

    /// The number of accepted connections.
    private final class Counter: ChannelInboundHandler, Sendable {
        typealias InboundIn = any Channel
        let count = Atomic(0)

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.count.add(1, ordering: .relaxed)
            context.fireChannelRead(data)
        }
    }

    @Test func aConnectionOfTheLastMomentIsAnsweredAfterTheSocketIsClosed() async throws {
        var options = Fixture.Options()
        options.edge = { $0.drain = Drain.Limits(most: .milliseconds(300), last: .seconds(60)) }
        options.isCancelled = true
        try await Fixture.with(options) { fixture in
            try await fixture.connected { late in
                fixture.stop()
                let deadline = ContinuousClock.now + .seconds(20)
                while let stranger = try? await RawConnection.open(port: fixture.port) {
                    await stranger.close()
                    try #require(ContinuousClock.now < deadline, "it goes on listening")
                }
                let answer = try await late.exchange(fixture.request("POST", "/v1/log", body: "[]"))
                #expect(answer.status == 200)
                #expect(answer["connection"] == "close")
            }
        }
    }
}
