import Foundation
import Model
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Packager

/// A secret that is changed under load, with a checkout that is ahead of the services and one that is behind.
@Suite(.server, .timeLimit(.minutes(5))) struct RotationTests {
    private static let (old, new) = ("the old secret of all brands\n", "the new secret of all brands\n")

    private func token(_ secret: String, _ order: String) throws -> String {
        try TokenSecrets(file: Array(secret.utf8)).token(for: ChangeLog.key(order)).rawValue
    }

    private func request(_ line: String, _ token: String, body: String = "") -> String {
        "\(line) HTTP/1.1\r\nHost: wallet.example.com\r\nAuthorization: AppleOrder \(token)\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// Fetches an order and registers a device for it.
    private func use(_ order: String, _ token: String, port: Int) async throws {
        let path = "\(BrandFixture.orderType)/\(order)"
        let fetched = try await RawConnection.once(port: port, self.request("GET /v1/orders/\(path)", token))
        #expect(fetched.status == 200, "\(order): \(fetched.text)")
        let registration = self.request(
            "POST /v1/devices/device-\(order)/registrations/\(path)", token, body: #"{"pushToken":"ab12"}"#)
        #expect(try await RawConnection.once(port: port, registration).status == 201, "\(order)")
    }

    @Test func everyOrderAcceptsItsDevicesTokenAcrossASecretRotation() async throws {
        try await Fleet.run { fleet in
            let secrets = try fleet.directory.write("rotated", Self.old)
            let more = ["WAYBILL_TOKEN_SECRETS": secrets, "WAYBILL_BRANDS_RELOAD_SECONDS": "1"]
            try await fleet.working(try (0..<2).map { _ in try fleet.member(more) }) {
                let reserved = try ReservedPort()
                defer { reserved.release() }
                let port = reserved.number
                let gateway = try fleet.child(
                    "waybill-gateway", more.merging(["WAYBILL_LISTEN": "127.0.0.1:\(port)"]) { $1 })
                try await gateway.line { $0.contains("listening") && $0.contains(":\(port)") }
                var tokens: [String: String] = [:]
                func publish(_ round: Int) async throws {
                    // The checkouts of even orders have the new secret from the beginning, those of odd ones never.
                    let orders = (0..<10).map { "o\(round * 10 + $0)" }
                    for (number, order) in orders.enumerated() {
                        tokens[order] = try self.token(number % 2 == 0 ? Self.new : Self.old, order)
                    }
                    try await fleet.publish(
                        orders.map { ("order.replaced", $0, "first \($0)", ChangeLog.document("1")) })
                }
                for round in 0..<10 { try await publish(round) }
                try await fleet.settle()
                try fleet.directory.write("rotated", Self.new + Self.old)
                for round in 10..<40 {
                    try await publish(round)
                    try await Task.sleep(for: .milliseconds(100))
                }
                try await gateway.line(containing: "token secrets reloaded")
                for round in 40..<50 { try await publish(round) }
                try await fleet.settle()
                #expect(tokens.count == 500)
                // One after another, a thousand requests take minutes on a busy machine.
                let all = Array(tokens)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for client in 0..<10 {
                        group.addTask {
                            for place in stride(from: client, to: all.count, by: 10) {
                                try await self.use(all[place].key, all[place].value, port: port)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                #expect(await gateway.stop(grace: .seconds(20)) == .code(0))
            }
        }
    }
}
