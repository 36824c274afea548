import Kafka
import Synchronization

/// A stack with a client of its Kafka, which moves to another cluster at the driver's command.
final class ChaosKafka: Sendable {
    private let state: Mutex<(stack: StackEnvironment, admin: KafkaAdmin)>

    init(_ stack: StackEnvironment) throws {
        self.state = Mutex((stack, try KafkaAdmin(stack.kafkaConfiguration())))
    }

    /// The current addresses.
    var stack: StackEnvironment { self.state.withLock(\.stack) }
    /// A client of the cluster currently in use; another object after each move.
    var admin: KafkaAdmin { self.state.withLock(\.admin) }

    /// Makes the cluster at this address the current one.
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
