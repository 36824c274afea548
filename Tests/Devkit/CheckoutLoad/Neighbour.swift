import Foundation
import Model
import NIOCore
import NIOPosix

/// Another merchant of a checkout role, whose service accepts connections and never answers, and whose pages request
/// baskets all the time.
struct Neighbour: Sendable {
    static let origin = "https://neighbour.example.com"
    /// The networks of its customers.
    private static let networks = 20

    let load: CheckoutLoad
    let rate: Int

    /// Writes the merchant's directory among those of a checkout role that is not started yet.
    /// - Parameter url: the address of its service.
    static func write(into merchants: String, url: String) throws {
        let directory = merchants + "/neighbour"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try Data(randomHex(bytes: 32).utf8).write(to: URL(filePath: directory + "/secret"))
        let empty = JSON.object(JSONObject())
        let merchant: JSON = [
            "merchantIdentifier": "merchant.com.example.neighbour", "displayName": "Neighbour",
            "origins": .object([Self.origin: empty]),
            "payment": [
                "countryCode": "US", "currencyCode": "USD", "supportedNetworks": ["visa"],
                "merchantCapabilities": ["supports3DS"],
            ],
            "upstream": ["url": .string(url), "secret": "secret", "addresses": ["127.0.0.1"]],
        ]
        try Data(merchant.serialized).write(to: URL(filePath: directory + "/merchant.json"))
    }

    /// Requests baskets for as long as `work` takes.
    /// - Returns: the result of `work`, and the outcomes of the neighbour's customers.
    func beside<Result: Sendable>(
        _ work: @Sendable () async -> Result
    ) async -> (Result, CheckoutLoad.Outcomes) {
        let flood = Task {
            await self.load.run(.max, rate: self.rate) { number in
                try await self.load.basket(
                    origin: Self.origin,
                    address: "203.0.\(number % Self.networks).\(number / Self.networks % 250 + 1)")
            }
        }
        let result = await work()
        flood.cancel()
        return (result, await flood.value)
    }

    /// A listener on 127.0.0.1 that accepts connections and reads nothing.
    static func listen() async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 4096)
            .childChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
    }
}
