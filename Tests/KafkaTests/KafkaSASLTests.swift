import TestKit
import TestTraits
import Testing

@testable import Kafka

/// User and password from the properties file, over TLS.
@Suite(.timeLimit(.minutes(1))) struct KafkaSASLTests {
    private static let mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

    private func configuration(
        _ server: KafkaAuthenticationServer, _ text: String, _ directory: TemporaryDirectory, _ events: EventLog
    ) throws -> KafkaConfiguration {
        let file = try directory.write("kafka.properties", text)
        return KafkaConfiguration(
            bootstrap: server.bootstrap, properties: try KafkaConfiguration.properties(file: file), file: file,
            onEvent: events.record)
    }

    @Test(.server, arguments: Self.mechanisms)
    func theClientAuthenticatesFromThePropertiesFile(mechanism: String) async throws {
        let server = try await KafkaAuthenticationServer.start()
        let (directory, events) = (try TemporaryDirectory("sasl"), EventLog())
        let producer = try KafkaProducer(
            self.configuration(server, server.properties(mechanism: mechanism), directory, events))
        try await server.until("admitted \(mechanism) \(KafkaAuthenticationServer.user)")
        try await server.until("asked 3")
        #expect(!events.contains(.denied), "\(events.all)")
        await producer.close()
        await server.stop()
    }

    @Test(.server, arguments: Self.mechanisms)
    func aWrongPasswordIsReportedWithoutShowingIt(mechanism: String) async throws {
        let server = try await KafkaAuthenticationServer.start()
        let (directory, events) = (try TemporaryDirectory("sasl"), EventLog())
        let text = server.properties(mechanism: mechanism, password: "hunter2")
        let producer = try KafkaProducer(self.configuration(server, text, directory, events))
        try await server.until("refused \(mechanism) \(KafkaAuthenticationServer.user)")
        try await eventually("told") { events.contains(.denied, "no such user or password") }
        #expect(!events.all.contains { $0.message.contains("hunter2") })
        await producer.close()
        await server.stop()
    }

    @Test(.server) func anUntrustedServerCertificateIsReported() async throws {
        let server = try await KafkaAuthenticationServer.start()
        let (directory, events) = (try TemporaryDirectory("sasl"), EventLog())
        let other = try await ServerCertificate()
        let text = server.properties(mechanism: "PLAIN") + "ssl.ca.location=\(other.file)\n"
        let producer = try KafkaProducer(self.configuration(server, text, directory, events))
        try await eventually("told") { events.contains(.denied, "certificate") }
        await producer.close()
        await server.stop()
    }

    @Test(arguments: [
        ("security.protocol=magic", "security.protocol"), ("no.such.property=1", "no.such.property"),
        ("linger.ms=soon", "linger.ms"), ("bootstrap.servers=a:1", "bootstrap.servers"),
        ("security.protocol=sasl_ssl\nsasl.mechanism=PLAIN", "sasl.username"),
        ("security.protocol=ssl\nssl.ca.location=/nonexistent/ca.pem", "ssl.ca.location"),
    ])
    func anInvalidPropertyIsReportedWithItsFileAndName(text: String, property: String) throws {
        let directory = try TemporaryDirectory("sasl")
        let file = try directory.write("kafka.properties", text)
        let configuration = KafkaConfiguration(
            bootstrap: "127.0.0.1:1", properties: try KafkaConfiguration.properties(file: file), file: file)
        func make(_ face: Int) throws {
            switch face {
            case 0: _ = try KafkaProducer(configuration)
            case 1: _ = try KafkaConsumer(configuration, group: "g", topics: ["t"])
            case 2: _ = try KafkaAdmin(configuration)
            default: _ = try KafkaReader(configuration)
            }
        }
        for face in 0..<4 {
            let error = #expect(throws: KafkaError.self) { try make(face) }
            #expect(error?.code == .configuration)
            #expect(error?.message.contains(property) == true, "\(error?.message ?? "")")
            #expect(error?.message.contains(file) == true, "\(error?.message ?? "")")
        }
    }

    @Test func propertiesAreCheckedWithoutAHandle() {
        func message(_ properties: [String: String]) -> String? {
            do {
                try KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: properties).check()
                return nil
            } catch {
                return error.message
            }
        }
        #expect(message(["security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"]) == nil)
        #expect(message(["linger.ms": "soon"])?.contains("linger.ms") == true)
        #expect(message(["sasl.passwort": "hunter2"])?.contains("sasl.passwort") == true)
        #expect(message(["group.id": "x"])?.contains("group.id") == true)
    }
}
