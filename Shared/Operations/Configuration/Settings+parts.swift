import Kafka
import Redis

/// Settings that more than one service reads, each with the check that prevents a start.
extension Settings {
    /// Reads the address and the properties of Kafka.
    func kafka() throws(SettingsError) -> KafkaConfiguration {
        let bootstrap = self.text(.kafkaBootstrap, default: "127.0.0.1:9092")
        guard let file = self.text(.kafkaProperties) else { return KafkaConfiguration(bootstrap: bootstrap) }
        do {
            let configuration = KafkaConfiguration(
                bootstrap: bootstrap, properties: try KafkaConfiguration.properties(file: file), file: file)
            try configuration.check()
            return configuration
        } catch {
            throw SettingsError(.kafkaProperties, value: file, error.message)
        }
    }

    /// Reads the address and the credentials of Redis.
    func redis() throws(SettingsError) -> RedisConfiguration {
        let url = self.text(.redisURL, default: "redis://127.0.0.1:6379/0")
        var password: String?
        if let path = self.text(.redisPasswordFile) {
            let content = try self.content(.redisPasswordFile, of: path, limit: 4096)
            self.checkSecrecy(of: path)
            let line = content.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            guard !line.isEmpty else {
                throw SettingsError(.redisPasswordFile, value: path, "the first line must be the password, it is empty")
            }
            password = String(decoding: line, as: UTF8.self)
        }
        let roots = self.text(.redisRoots)
        if let roots {
            _ = try self.content(.redisRoots, of: roots)
            guard url.hasPrefix("rediss") else {
                throw SettingsError(.redisRoots, value: roots, "is for rediss:// and rediss+sentinel:// only")
            }
        }
        do {
            return try RedisConfiguration(url: url, password: password, caFile: roots)
        } catch {
            if let roots, error.message.contains(roots) {
                throw SettingsError(.redisRoots, value: roots, error.message)
            }
            throw SettingsError(.redisURL, value: url, error.message)
        }
    }

    /// Reads the address of `/livez`, `/readyz` and `/metrics`.
    func operationsListen() throws(SettingsError) -> ListenAddress {
        try self.address(.operationsListen, default: "127.0.0.1:9090")
    }

    /// Reads the base URL that is written into each order.
    public func webServiceURL() throws(SettingsError) -> String {
        let url = try self.required(.webServiceURL, "https://… as Wallet will call the gateway")
        guard url.hasPrefix("https://"), url.utf8.count > 8, !url.contains(where: \.isWhitespace) else {
            throw SettingsError(.webServiceURL, value: url, "must start with https://")
        }
        return url
    }
}
