import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import ServiceLifecycleTestKit
import TestKit
import TestTraits
import Testing

@testable import Operations

@Suite struct OperationsServerTests {
    /// Runs the server while `body` works with its port; then stops it gracefully.
    func with(
        readiness: Readiness = Readiness(conditions: []), liveness: Liveness = Liveness(),
        metrics: MetricsRegistry = MetricsRegistry(),
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let server = OperationsServer(
            address: ListenAddress(host: "127.0.0.1", port: 0), readiness: readiness, liveness: liveness,
            metrics: metrics, group: .singleton, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onListening: { continuation.yield($0) })
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await server.run() }
                group.addTask {
                    defer { trigger.triggerGracefulShutdown() }
                    guard let port = await ports.first(where: { _ in true }) else { throw CancellationError() }
                    try await body(port)
                }
                try await group.waitForAll()
            }
        }
    }

    @Test(.server) func anAddressThatIsTakenIsNamed() async throws {
        try await self.with { port in
            let second = OperationsServer(
                address: ListenAddress(host: "127.0.0.1", port: port), readiness: Readiness(conditions: []),
                metrics: MetricsRegistry(), group: .singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let failure = await #expect(throws: ListenFailure.self) { try await second.run() }
            #expect(failure?.description == "listening on 127.0.0.1:\(port): another program listens there")
        }
    }

    @Test(.server) func probesAndMetricsAreAnswered() async throws {
        let readiness = Readiness(conditions: ["redis"])
        let metrics = MetricsRegistry()
        _ = metrics.makeCounter(label: "c_total", dimensions: [])
        try await self.with(readiness: readiness, metrics: metrics) { port in
            func ask(_ method: String, _ target: String) async throws -> RawConnection.Response {
                try await RawConnection.once(port: port, "\(method) \(target) HTTP/1.1\r\nHost: x\r\n\r\n")
            }
            #expect(try await ask("GET", "/livez").text == "alive\n")
            var ready = try await ask("GET", "/readyz")
            #expect(ready.status == 503)
            #expect(ready.text == "redis: not yet\n")
            readiness.met("redis")
            ready = try await ask("GET", "/readyz?verbose")
            #expect(ready.status == 200)
            #expect(ready.text == "ready\n")
            readiness.note("apns", "away")
            ready = try await ask("GET", "/readyz")
            #expect(ready.status == 200, "said, and no reason to be unready")
            #expect(ready.text == "ready\napns: away\n", "said, and no reason to be unready")
            readiness.note("apns", nil)
            #expect(readiness.remarks.isEmpty)
            let text = try await ask("GET", "/metrics")
            #expect(text.status == 200)
            #expect(text.text.hasPrefix("# TYPE c_total counter\nc_total 0\n"))
            #expect(text.text.contains("\n# TYPE process_open_fds gauge\nprocess_open_fds "))
            #expect(text["content-type"]?.hasPrefix("text/plain; version=0.0.4") == true)
            let head = try await ask("HEAD", "/livez")
            #expect(head.status == 200)
            #expect(head["content-length"] == "6")
            #expect(head.body.isEmpty)
            #expect(try await ask("GET", "/").status == 404)
            #expect(try await ask("GET", "/livez/").status == 404)
            let refused = try await RawConnection.once(
                port: port, "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            #expect(refused.status == 405)
            #expect(refused["allow"] == "GET, HEAD")
        }
    }

    /// Pipelined requests for large answers that nobody reads would make the process grow with each of them.
    @Test(.server) func aConnectionEndsWithItsFirstAnswer() async throws {
        try await self.with { port in
            let connection = try await RawConnection.open(port: port)
            try await connection.send(String(repeating: "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", count: 1000))
            let answer = try await connection.response()
            #expect(answer.status == 200)
            #expect(answer["connection"] == "close")
            await #expect(throws: RawConnection.Failure.self) { try await connection.response() }
            await connection.close()
        }
    }

    @Test(.server) func theOldestConnectionIsClosedBeyondTheLimit() async throws {
        try await self.with { port in
            let request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
            var open: [RawConnection] = []
            for _ in 0..<OperationsServer.connectionLimit + 3 {
                open.append(try await RawConnection.open(port: port))
            }
            for connection in open[..<3] { #expect(try await connection.isClosedByServer()) }
            for connection in open[3...] { #expect(try await connection.exchange(request).status == 200) }
            for connection in open { await connection.close() }
        }
    }

    @Test(arguments: [
        ("127.0.0.1", true), ("127.8.9.1", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.1.2.4", false),
        ("2001:db8::1", false), ("::ffff:10.1.2.4", false),
    ])
    func readinessReasonsAreShownOnlyToLoopbackClients(address: String, isLocal: Bool) throws {
        let readiness = Readiness(conditions: ["redis", "view"])
        readiness.unmet("redis", "connecting to 10.1.2.3:6379: refused")
        func ask() throws -> (HTTPResponseStatus, String) {
            let channel = EmbeddedChannel()
            channel.remoteAddress = try SocketAddress(ipAddress: address, port: 1)
            try channel.pipeline.syncOperations.addHandler(
                OperationsHandler(readiness: readiness, metrics: MetricsRegistry()))
            try channel.writeInbound(
                HTTPServerRequestPart.head(.init(version: .http1_1, method: .GET, uri: "/readyz")))
            try channel.writeInbound(HTTPServerRequestPart.end(nil))
            guard case .head(let head)? = try channel.readOutbound(as: HTTPServerResponsePart.self),
                case .body(.byteBuffer(let body))? = try channel.readOutbound(as: HTTPServerResponsePart.self)
            else { throw CancellationError() }
            _ = try channel.readOutbound(as: HTTPServerResponsePart.self)
            return (head.status, String(buffer: body))
        }
        let reasons = isLocal ? "redis: connecting to 10.1.2.3:6379: refused\nview: not yet\n" : "redis\nview\n"
        #expect(try ask() == (.serviceUnavailable, reasons))
        for condition in ["redis", "view"] { readiness.met(condition) }
        #expect(try ask() == (.ok, "ready\n"))
    }

    @Test(.server) func malformedRequestsDoNotStopTheServer() async throws {
        try await self.with { port in
            for junk in ["\u{0}\u{1}\r\n\r\n", "GET\r\n\r\n", "GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n"] {
                let connection = try await RawConnection.open(port: port)
                try await connection.send(junk)
                #expect(try await connection.response().status == 400)
                #expect(try await connection.isClosedByServer())
                await connection.close()
            }
            #expect(try await RawConnection.once(port: port, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").status == 200)
        }
    }

    @Test(.timeLimit(.minutes(1))) func cancellationStopsTheServerWithoutAGracefulShutdown() async throws {
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let server = OperationsServer(
            address: ListenAddress(host: "127.0.0.1", port: 0), readiness: Readiness(conditions: []),
            metrics: MetricsRegistry(), group: .singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, onListening: { continuation.yield($0) })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            _ = await ports.first { _ in true }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test func aTakenPortStopsTheStart() async throws {
        try await self.with { port in
            let second = OperationsServer(
                address: ListenAddress(host: "127.0.0.1", port: port), readiness: Readiness(conditions: []),
                metrics: MetricsRegistry(), group: .singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await #expect(throws: (any Error).self) { try await second.run() }
        }
    }
}
