import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Redis

/// A server that sends each connection a fixed text and then nothing.
private struct StubbornServer {
    let channel: any Channel
    var url: String { "redis://127.0.0.1:\(self.channel.localAddress?.port ?? 0)" }

    init(saying text: String) async throws {
        try TestServers.use("listener")
        self.channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }
}

@Suite struct RedisFaultTests {
    /// - Parameter deadline: the time for a command, and the time for a connection.
    private func configuration(
        _ url: String, password: String? = nil,
        deadline: (command: Duration, connect: Duration) = (.seconds(2), .seconds(1))
    ) throws -> RedisConfiguration {
        var configuration = try RedisConfiguration(url: url, password: password)
        (configuration.commandDeadline, configuration.connectDeadline) = deadline
        return configuration
    }

    @Test(.server) func aServerSilentDuringPreparationCausesAConnectionError() async throws {
        let server = try await StubbornServer(saying: "")
        let deadline = (command: Duration.seconds(20), connect: Duration.milliseconds(100))
        try await withClient(self.configuration(server.url, deadline: deadline)) { client in
            let error = await #expect(throws: RedisError.self) { _ = try await client.send(ping) }
            #expect(error?.code == .connection)
            #expect(error?.message.contains("no answer in 100 ms") == true, "\(error?.message ?? "")")
        }
        try await server.channel.close()
    }

    /// As after a failover to such a server: each command's error names the reason.
    @Test(.server) func commandsReportAnUnsupportedServerVersion() async throws {
        let information = "redis_version:6.2.14\r\nrun_id:a\r\nrole:master\r\n"
        let server = try await StubbornServer(
            saying: "+PONG\r\n$\(information.utf8.count)\r\n\(information)\r\n-ERR no cluster\r\n")
        let deadline = (command: Duration.seconds(2), connect: Duration.seconds(10))
        try await withClient(self.configuration(server.url, deadline: deadline)) { client in
            let error = await #expect(throws: RedisError.self) { _ = try await client.information() }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains("Redis 6.2.14, version 7.0 or later") == true, "\(error?.message ?? "")")
        }
        try await server.channel.close()
    }

    @Test(.server) func aCommandWithoutAnAnswerTimesOutAndTheClientRecovers() async throws {
        let server = try await RedisServer.startAlone()
        try await withClient(self.configuration(server.url)) { client in
            try await client.connect()
            server.signal(19)
            let started = ContinuousClock.now
            #expect(await code { () throws(RedisError) in _ = try await client.send(ping) } == .timeout)
            #expect(ContinuousClock.now - started < .seconds(20))
            server.signal(18)
            try await untilItAnswers(client)
            // A late answer to the first PING would now be taken for this command's answer.
            #expect(try await client.send(RedisCommand("ECHO", "mine")).text == "mine")
        }
        await server.stop()
    }

    @Test(.server) func unsolicitedAndMalformedRepliesAreNotReturnedAsAnswers() async throws {
        for text in ["+PONG\r\n+OK\r\n+OK\r\n", "+PONG\r\nHTTP/1.1 400 Bad Request\r\n", "-ERR max clients\r\n"] {
            let server = try await StubbornServer(saying: text)
            try await withClient(self.configuration(server.url)) { client in
                let code = await code { () throws(RedisError) in _ = try await client.pipeline([ping, ping, ping]) }
                #expect(code != nil)
                #expect(code != .server)
            }
            try await server.channel.close()
        }
    }

    @Test func aRefusedConnectionErrorNamesTheAddress() async throws {
        let reserved = try ReservedPort()
        defer { reserved.release() }

        let port = reserved.number
        try await withClient(self.configuration("redis://127.0.0.1:\(port)")) { client in
            let error = await #expect(throws: RedisError.self) { _ = try await client.send(ping) }
            #expect(error?.code == .connection)
            #expect(error?.isRetriable == true)
            #expect(error?.message.contains("127.0.0.1:\(port)") == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("refused") == true, "\(error?.message ?? "")")
        }
    }

    @Test func theQueueIsBoundedWhileThereIsNoConnection() async throws {
        let port = try ReservedPort()
        defer { port.release() }

        var configuration = try self.configuration("redis://127.0.0.1:\(port.number)")
        configuration.commandLimit = 3
        let limited = configuration
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        try await withClient(limited, on: loop) { client in
            let waiting = (0..<3).map { _ in client.pipeline([ping], on: loop) }
            #expect(await code { () throws(RedisError) in _ = try await client.send(ping) } == .queueFull)
            for future in waiting {
                let error = await #expect(throws: RedisError.self) { _ = try await future.get() }
                #expect(error?.code == .connection)
            }
        }
    }

    @Test(.server) func passwordsAreVerifiedAndOmittedFromErrors() async throws {
        let server = try await RedisServer.startAlone(["--requirepass", "right"])
        for (url, isRight) in [
            ("redis://:right@127.0.0.1:\(server.port)/2", true),
            ("redis://default:right@127.0.0.1:\(server.port)", true),
            ("redis://:wrong@127.0.0.1:\(server.port)", false), ("redis://127.0.0.1:\(server.port)", false),
        ] {
            try await withClient(self.configuration(url)) { client in
                do throws(RedisError) {
                    _ = try await client.send(ping)
                    #expect(isRight)
                } catch {
                    #expect(!isRight)
                    #expect(error.code == .connection)
                    #expect(error.message.contains("WRONGPASS") || error.message.contains("NOAUTH"))
                    #expect(!error.message.contains("wrong"))
                }
            }
        }
        try await withClient(self.configuration(server.url + "/2", password: "right")) { client in
            _ = try await client.send(RedisCommand("SET", "k", "v"))
            #expect(try await client.send(RedisCommand("CLIENT", "INFO")).text?.contains(" db=2 ") == true)
        }
        await server.stop()
    }

    @Test(.server) func aCommandOfACancelledTaskStillWaitsForItsDeadline() async throws {
        let server = try await RedisServer.startAlone()
        try await withClient(self.configuration(server.url)) { client in
            try await client.connect()
            server.signal(19)
            await withTaskGroup(of: RedisError.Code?.self) { group in
                group.addTask { await code { () throws(RedisError) in _ = try await client.send(ping) } }
                group.cancelAll()
                let started = ContinuousClock.now
                #expect(await group.next() == .timeout)
                #expect(ContinuousClock.now - started < .seconds(20))
            }
            server.signal(18)
        }
        await server.stop()
    }
}
