import Kafka
import Model
import TestKit
import Testing

@testable import Devkit

@Suite struct StackEnvironmentTests {
    static let lines = [
        "GATEWAY_URL=http://127.0.0.1:1", "KAFKA_BOOTSTRAP=127.0.0.1:2", "APNS_ADMIN_URL=http://127.0.0.1:3",
        "ORDER_TYPE=order.com.example.shop", "TOKEN_SECRETS=/s=1/secrets.json", "ROOT_CA=/root.pem",
    ]

    static func read(_ text: String) throws -> StackEnvironment {
        let directory = try TemporaryDirectory("environment")
        defer { directory.remove() }
        return try StackEnvironment(file: directory.write("stack.env", text))
    }

    @Test func knownVariablesAreReadAndOthersIgnored() throws {
        let stack = try Self.read((Self.lines + ["REDIS_URL=redis://x", "", "a comment"]).joined(separator: "\n"))
        #expect(stack.gateway == "http://127.0.0.1:1")
        #expect(stack.kafka == "127.0.0.1:2")
        #expect(stack.apnsAdmin == "http://127.0.0.1:3")
        #expect(stack.orderType.rawValue == "order.com.example.shop")
        #expect(stack.tokenSecrets == "/s=1/secrets.json")
        #expect(stack.roots == "/root.pem")
        #expect(stack.webServiceURL == nil)
        #expect(try stack.kafkaConfiguration().properties == [:])
        let named = try Self.read((Self.lines + ["WEB_SERVICE_URL=https://wallet.example.com"]).joined(separator: "\n"))
        #expect(named.webServiceURL == "https://wallet.example.com")
    }

    @Test func theToolsUseTheKafkaSettingsOfTheServices() throws {
        let directory = try TemporaryDirectory("environment")
        let file = try directory.write("services.properties", "security.protocol=ssl\n")
        let kafka = try Self.read((Self.lines + ["KAFKA_PROPERTIES=\(file)"]).joined(separator: "\n"))
            .kafkaConfiguration()
        #expect(kafka.bootstrap == "127.0.0.1:2")
        #expect(kafka.file == file)
        #expect(kafka.properties == ["security.protocol": "ssl"])
    }

    @Test(arguments: lines.indices)
    func aMissingVariableIsNamed(_ missing: Int) {
        var lines = Self.lines
        let name = lines.remove(at: missing).prefix { $0 != "=" }
        let error = #expect(throws: ToolError.self) { try Self.read(lines.joined(separator: "\n")) }
        #expect(error?.code == .input)
        #expect(error?.message.hasSuffix("stack.env: \(name) is missing") == true, "\(error?.message ?? "")")
    }

    @Test func anEmptyVariableCountsAsMissing() {
        let error = #expect(throws: ToolError.self) {
            try Self.read(Self.lines.joined(separator: "\n").replacing("127.0.0.1:2", with: ""))
        }
        #expect(error?.message.contains("KAFKA_BOOTSTRAP is missing") == true)
    }

    @Test func anInvalidOrderTypeIsReportedWithTheFile() {
        let error = #expect(throws: ToolError.self) {
            try Self.read(Self.lines.joined(separator: "\n").replacing("order.com.example.shop", with: "a/b"))
        }
        #expect(error?.message.contains("stack.env: ORDER_TYPE") == true, "\(error?.message ?? "")")
    }

    @Test func aMissingEnvironmentFileIsNamed() {
        let error = #expect(throws: ToolError.self) { try StackEnvironment(file: "/nowhere/stack.env") }
        #expect(error?.code == .file)
        #expect(error?.message.contains("/nowhere/stack.env") == true)
    }
}
