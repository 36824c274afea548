import Kafka
import Testing

@testable import Operations

@Suite struct ServiceEnvironmentTests {
    @Test func anOperatorsDeliveryTimeoutOverridesTheDefault() {
        let plain = KafkaConfiguration(bootstrap: "x:1", properties: ["a": "b"])
        let bounded = ServiceEnvironment.bounded(plain, within: .seconds(5))
        #expect(bounded.properties == ["a": "b", "delivery.timeout.ms": "5000"])
        for name in ["delivery.timeout.ms", "message.timeout.ms"] {
            let given = KafkaConfiguration(bootstrap: "x:1", properties: [name: "9000"])
            #expect(ServiceEnvironment.bounded(given, within: .seconds(5)).properties == [name: "9000"])
        }
    }
}
