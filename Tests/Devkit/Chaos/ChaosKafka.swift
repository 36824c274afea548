import Kafka
import Synchronization

/// A stack with a client of its Kafka, which moves when the driver says so.
final class ChaosKafka: Sendable {
    private let state: Mutex<(stack: StackEnvironment, admin: KafkaAdmin)>

    init(_ stack: StackEnvironment) throws {
        self.state = Mutex((stack, try KafkaAdmin(stack.kafkaConfiguration())))
    }

    /// The addresses as they are now.
    var stack: StackEnvironment { self.state.withLock(\.stack) }
    /// A client of the cluster that is in use now: another object after each move.
    var admin: KafkaAdmin { self.state.withLock(\.admin) }

    /// From here on all use the cluster at this address.
    /// - Returns: the configuration of its clients.
    func move(to bootstrap: String) throws -> KafkaConfiguration {
        var stack = self.stack
        stack.kafka = bootstrap
        let configuration = try stack.kafkaConfiguration()
        let admin = try KafkaAdmin(configuration)
        self.state.withLock { $0 = (stack, admin) }
        return configuration
    }
}
