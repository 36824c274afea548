import TestKit
import TestTraits
import Testing

@testable import Kafka

struct KafkaConfigurationTests {
    @Test func theSessionTimeoutComesFromTheProperties() {
        #expect(KafkaConfiguration(bootstrap: "x:1").sessionTimeout == .seconds(45))
        let given = KafkaConfiguration(bootstrap: "x:1", properties: ["session.timeout.ms": "6000"])
        #expect(given.sessionTimeout == .seconds(6))
    }

    @Test func aFileOfPropertiesIsRead() throws {
        let text = "# TLS\nsecurity.protocol = ssl\r\n\n  ssl.ca.location=/etc/ca.pem\nsasl.password=a=b#c\nempty=\n"
        #expect(
            try KafkaConfiguration.properties(text: text) == [
                "security.protocol": "ssl", "ssl.ca.location": "/etc/ca.pem", "sasl.password": "a=b#c", "empty": "",
            ])
        #expect(try KafkaConfiguration.properties(text: "").isEmpty)
    }

    @Test(arguments: ["novalue", "=x", "a=b\nsasl.password secret"])
    func anInvalidLineIsReportedByItsNumberOnly(text: String) {
        do {
            _ = try KafkaConfiguration.properties(text: text)
            Issue.record("accepted")
        } catch {
            #expect(error.code == .configuration)
            #expect(error.message.contains("line "))
            #expect(!error.message.contains("secret"))
        }
    }

    @Test(arguments: ["/nonexistent/kafka.properties", "/", "/dev/zero"])
    func aFileThatCannotBeReadIsNamed(path: String) {
        do {
            _ = try KafkaConfiguration.properties(file: path)
            Issue.record("accepted")
        } catch {
            #expect(error.code == .configuration)
            #expect(error.message.contains(path))
        }
    }

    @Test(arguments: [
        ("no.such.property", "1"), ("linger.ms", "soon"), ("group.id", "g"), ("enable.auto.commit", "true"),
        ("bootstrap.servers", "x:1"), ("security.protocol", "carrier-pigeon"),
    ])
    func aBadPropertyIsNamed(name: String, value: String) {
        let configuration = KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: [name: value])
        let tries: [() throws -> Void] = [
            { _ = try KafkaProducer(configuration) }, { _ = try KafkaAdmin(configuration) },
            { _ = try KafkaConsumer(configuration, group: "g", topics: ["t"]) },
        ]
        for attempt in tries {
            let error = #expect(throws: KafkaError(.configuration, "")) { try attempt() }
            #expect(error?.message.contains(name) == true)
        }
    }

    @Test(arguments: [
        ("acks", "1", ["all", "ALL", "-1"]), ("request.required.acks", "0", ["-1"]),
        ("enable.idempotence", "false", ["true", "1"]), ("enable.gapless.guarantee", "true", ["false"]),
        ("max.in.flight", "6", ["5", "1"]), ("max.in.flight.requests.per.connection", "1000000", ["5"]),
        ("partitioner", "consistent_random", ["murmur2_random"]), ("delivery.report.only.error", "true", ["false"]),
        ("isolation.level", "read_uncommitted", ["read_committed"]), ("auto.offset.reset", "latest", ["earliest"]),
    ])
    func propertiesMayRepeatAGuaranteeButNotWeakenIt(name: String, bad: String, good: [String]) async throws {
        let file = "/etc/corporate.properties"
        let refused = KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: [name: bad], file: file)
        let error = #expect(throws: KafkaError(.configuration, "")) { try KafkaProducer(refused) }
        let message = error?.message ?? ""
        #expect(message.contains("\(name)=\(bad): it must be "), "\(message)")
        #expect(message.contains(", since "), "\(message)")
        #expect(message.contains("remove this line"), "\(message)")
        #expect(message.hasSuffix(", see \(file)"), "\(message)")
        for value in good {
            let taken = KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: [name: value], file: file)
            let producer = try KafkaProducer(taken)
            await producer.close()
            let reader = try KafkaReader(taken)
            await reader.close()
        }
    }

    @Test func bootstrapServersInThePropertiesAreRefused() {
        let configuration = KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: ["bootstrap.servers": "x:1"])
        let error = #expect(throws: KafkaError(.configuration, "")) { try configuration.check() }
        #expect(error?.message.contains("remove this line") == true)
    }

    @Test(arguments: ["ssl.key.pem", "ssl.key.password", "sasl.password", "sasl.oauthbearer.client.secret"])
    func errorMessagesNeverContainASecret(name: String) {
        #expect(KafkaConfiguration.isSecret(name))
        let configuration = KafkaConfiguration(
            bootstrap: "127.0.0.1:1",
            properties: ["security.protocol": "ssl", name: "hush-hush", "ssl.key.location": "/nonexistent"])
        do { _ = try KafkaProducer(configuration) } catch { #expect(!error.description.contains("hush")) }
    }

    @Test(.server) func producersAndConsumersIgnoreEachOthersProperties() async throws {
        let broker = try KafkaBroker(topics: [.init("t", partitions: 1)])
        let log = EventLog()
        let both = configuration(
            broker, ["linger.ms": "1", "fetch.wait.max.ms": "20", "compression.type": "lz4"], onEvent: log.record)
        let producer = try KafkaProducer(both)
        let consumer = try KafkaConsumer(both, group: "g", topics: ["t"])
        let admin = try KafkaAdmin(both)
        let reader = try KafkaReader(both)
        _ = try await producer.produce(KafkaMessage(topic: "t", key: nil, value: [1]))
        #expect(try await read(consumer, 1).count == 1)
        #expect(try await reader.bounds(of: "t").map(\.end) == [1])
        #expect(!log.all.contains { $0.severity == .warning || $0.severity == .error })
        await consumer.close()
        await producer.close()
        await admin.close()
        await reader.close()
    }

    @Test func anEmptyBootstrapAddressAndNoTopicsAreRefused() {
        #expect(throws: KafkaError(.configuration, "")) { try KafkaProducer(KafkaConfiguration(bootstrap: "")) }
        #expect(throws: KafkaError(.configuration, "")) {
            try KafkaConsumer(KafkaConfiguration(bootstrap: "127.0.0.1:1"), group: "g", topics: [])
        }
    }
}
