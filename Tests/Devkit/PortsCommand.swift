import ArgumentParser
import TestKit

/// `waybill-dev ports`: TCP ports that are not in use at the moment.
struct PortsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ports", abstract: "Prints free TCP ports of 127.0.0.1, one per line.")

    @Argument(help: "Number of ports, 1 to 100.")
    var count: Int

    func validate() throws {
        guard (1...100).contains(self.count) else { throw ValidationError("\(self.count) must be 1 to 100") }
    }

    func run() async throws {
        // Reserves all of them at the same time, so that none is printed twice.
        let ports = try (0..<self.count).map { _ in try ReservedPort() }
        for port in ports { Console.line(String(port.number)) }
    }
}
