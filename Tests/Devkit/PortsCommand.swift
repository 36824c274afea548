import ArgumentParser
import NIOCore
import NIOPosix

/// `waybill-dev ports`: TCP ports that nobody listens on right now.
struct PortsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ports", abstract: "Prints free TCP ports of 127.0.0.1, one a line.")

    @Argument(help: "How many, 1 to 100.")
    var count: Int

    func validate() throws {
        guard (1...100).contains(self.count) else { throw ValidationError("\(self.count) must be 1 to 100") }
    }

    func run() async throws {
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        // All are held at once, so that none is given twice.
        var channels: [any Channel] = []
        for _ in 0..<self.count { channels.append(try await bootstrap.bind(host: "127.0.0.1", port: 0).get()) }
        for channel in channels { Console.line(String(channel.localAddress?.port ?? 0)) }
        for channel in channels { try await channel.close() }
    }
}
