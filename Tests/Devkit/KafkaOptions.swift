import ArgumentParser
import Kafka
import Synchronization

/// The options for a tool's connection to Kafka and its credentials.
struct KafkaOptions: ParsableArguments {
    @Option(help: "Kafka's address, host:port.") var bootstrap: String
    @Option(help: "A librdkafka properties file (TLS, SASL).") var properties: String?

    func configuration() throws -> KafkaConfiguration {
        try KafkaConfiguration.ofTool(bootstrap: self.bootstrap, file: self.properties)
    }
}

extension KafkaConfiguration {
    /// Returns a configuration that prints each refusal by a broker on standard error, once. The tool itself only sees
    /// that no answer arrives.
    static func ofTool(bootstrap: String, file: String?) throws -> KafkaConfiguration {
        var configuration = KafkaConfiguration(bootstrap: bootstrap, file: file)
        if let file { configuration.properties = try Self.properties(file: file) }
        let told = Refusals()
        configuration.onEvent = { event in
            guard event.kind == .denied, told.isNew(event.message) else { return }
            Console.progress("waybill-dev: \(event.message)")
        }
        return configuration
    }

    private final class Refusals: Sendable {
        private let told = Mutex<Set<String>>([])

        func isNew(_ text: String) -> Bool {
            self.told.withLock { $0.count < 100 && $0.insert(text).inserted }
        }
    }
}
