import Foundation
import Kafka
import Model

/// The addresses of a stack, as `compose/stack` writes them to `stack.env`. Source: Design §9
struct StackEnvironment: Sendable {
    let gateway: String
    /// Kafka's address, host:port.
    var kafka: String
    /// Path of the properties file with which the services connect to Kafka; nil if stack.env does not have it.
    let kafkaProperties: String?
    let apnsAdmin: String
    /// Redis's URL; nil if the file does not have it.
    let redis: String?
    let orderType: OrderTypeIdentifier
    /// The `webServiceURL` of every order; nil if the file does not have it.
    let webServiceURL: String?
    /// Path of the directory with the brands; nil if the file does not have it.
    let brands: String?
    /// Path of the file with the token secrets.
    let tokenSecrets: String
    /// Path of the PEM file with the root used in place of Apple's.
    let roots: String
    /// The URLs of the services' metrics and health, sorted.
    let operations: [String]
    /// Path of the folder with the services' logs; nil if there is none next to the file.
    let logs: String?
    /// Path of the folder of the stack.
    let folder: String

    /// - Parameter file: one `NAME=value` per line.
    init(file: String) throws {
        var values: [String: String] = [:]
        for line in String(decoding: try readFile(file), as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { values[String(parts[0])] = String(parts[1]) }
        }
        func value(_ name: String) throws(ToolError) -> String {
            guard let value = values[name], !value.isEmpty else {
                throw ToolError(.input, "reading \(file): \(name) is missing")
            }
            return value
        }
        self.gateway = try value("GATEWAY_URL")
        self.kafka = try value("KAFKA_BOOTSTRAP")
        self.kafkaProperties = values["KAFKA_PROPERTIES"].flatMap { $0.isEmpty ? nil : $0 }
        self.apnsAdmin = try value("APNS_ADMIN_URL")
        do {
            self.orderType = try OrderTypeIdentifier(try value("ORDER_TYPE"))
        } catch let error as IdentifierError {
            throw ToolError(.input, "reading \(file): ORDER_TYPE: \(error)")
        }
        self.redis = values["REDIS_URL"].flatMap { $0.isEmpty ? nil : $0 }
        self.webServiceURL = values["WEB_SERVICE_URL"].flatMap { $0.isEmpty ? nil : $0 }
        self.brands = values["BRANDS"].flatMap { $0.isEmpty ? nil : $0 }
        self.tokenSecrets = try value("TOKEN_SECRETS")
        self.roots = try value("ROOT_CA")
        self.folder = URL(fileURLWithPath: file).deletingLastPathComponent().path
        let logs = "\(self.folder)/log"
        self.logs = FileManager.default.fileExists(atPath: logs) ? logs : nil
        self.operations = values.filter { $0.key.hasPrefix("OPERATIONS_") && !$0.value.isEmpty }.map(\.value).sorted()
    }

    /// Returns the configuration with which the tools connect to the stack's Kafka; the services use the same.
    func kafkaConfiguration() throws -> KafkaConfiguration {
        try KafkaConfiguration.ofTool(bootstrap: self.kafka, file: self.kafkaProperties)
    }
}
