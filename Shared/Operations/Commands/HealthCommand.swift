public import ArgumentParser
import FoundationEssentials
import NIOCore
import NIOPosix

/// `health` of each program: the answer of its own operations port, for a container without a shell.
public struct HealthCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the service that runs with the same configuration if it is ready.",
        discussion: """
            It asks \(SettingKey.operationsListen.rawValue) for /readyz and prints the answer. Exit codes: 0: ready \
            (with --live: alive); 1: not, or no answer within three seconds.
            """)

    @Flag(help: "Ask for /livez instead: is the process able to work at all?")
    var live = false

    public init() {}

    public func run() async throws {
        let check = try HealthCheck(environment: ProcessInfo.processInfo.environment, timeout: .seconds(3))
        let answer: HealthCheck.Answer
        do {
            answer = try await check.ask(self.live ? "/livez" : "/readyz")
        } catch {
            StandardStream.error.write("\(error)\n")
            throw ExitCode.failure
        }
        StandardStream.output.write(answer.text)
        if !answer.isHealthy { throw ExitCode.failure }
    }
}

/// A question to the operations port of a service on this machine.
///
/// Bounded: by a time limit, and by the size of the answer.
struct HealthCheck: Sendable {
    /// The answer of the service.
    struct Answer: Hashable, Sendable {
        let isHealthy: Bool
        let text: String

        /// - Parameter response: an HTTP/1 response. Nil if it is none. Source: RFC 9112 §4
        init?(response: String) {
            let parts = response.split(separator: "\r\n", maxSplits: 1)
            guard let line = parts.first, line.hasPrefix("HTTP/1.") else { return nil }
            let words = line.split(separator: " ")
            guard words.count > 1, let status = Int(words[1]), (100...599).contains(status) else { return nil }
            self.isHealthy = status == 200
            self.text = response.split(separator: "\r\n\r\n", maxSplits: 1).dropFirst().first.map(String.init) ?? ""
        }
    }

    /// The reason why there is no answer.
    struct Failure: Error, Hashable, CustomStringConvertible {
        let description: String
    }

    /// Most bytes of an answer; the rest is not read.
    private static let limit = 65_536

    let address: ListenAddress
    let timeout: Duration

    init(_ address: ListenAddress, timeout: Duration) {
        self.address = address
        self.timeout = timeout
    }

    /// Reads where the service listens. Other keys are not looked at: this process may have less than the service has.
    ///
    /// - Throws: `SettingsError` that names the key and the value.
    init(environment: [String: String], timeout: Duration) throws(SettingsError) {
        let settings = try Settings(environment: environment)
        let address = try settings.operationsListen()
        guard address.port != 0 else {
            throw SettingsError(
                .operationsListen, value: "\(address)", "the port must be a number other than 0 to ask the service")
        }
        self.init(address.connectable, timeout: timeout)
    }

    /// - Throws: `Failure`
    func ask(_ path: String) async throws(Failure) -> Answer {
        let response: String
        do {
            response = try await self.response(to: path)
        } catch {
            let reason = (error as? NIOConnectionError)?.connectionErrors.first.map { "\($0.error)" } ?? "\(error)"
            throw Failure(description: "cannot ask \(self.address): \(reason)")
        }
        guard let answer = Answer(response: response) else {
            let start = response.isEmpty ? "" : ", but \"\(response.prefix(40))\""
            throw Failure(description: "\(self.address) gives no HTTP answer within \(self.timeout)\(start)")
        }
        return answer
    }

    private func response(to path: String) async throws -> String {
        let limit = TimeAmount(self.timeout)
        let connection = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup).connectTimeout(limit)
            .connect(host: self.address.host, port: self.address.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        let channel = connection.channel
        let end = channel.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
        defer { end.cancel() }
        return try await connection.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: "GET \(path) HTTP/1.0\r\nHost: \(self.address)\r\n\r\n"))
            var answer = ByteBuffer()
            for try await part in inbound {
                answer.writeImmutableBuffer(part)
                if answer.readableBytes >= Self.limit { break }
            }
            return String(buffer: answer)
        }
    }
}
