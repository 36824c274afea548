import Kafka
public import Packaging
import Redis

/// Settings that more than one service reads, each with the check that prevents a start.
extension Settings {
    /// The address and the properties of Kafka.
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

    /// The address and the credentials of Redis.
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

    /// The base URL written into each order.
    public func webServiceURL() throws(SettingsError) -> String {
        let url = try self.required(.webServiceURL, "https://… as Wallet will call the gateway")
        guard url.hasPrefix("https://"), url.utf8.count > 8, !url.contains(where: \.isWhitespace) else {
            throw SettingsError(.webServiceURL, value: url, "must start with https://")
        }
        return url
    }

    /// The mint of authentication tokens, from the shared secrets and those of brands.
    public func tokens(_ brands: BrandLibrary) throws(SettingsError) -> TokenAuthority {
        let path = try self.required(.tokenSecrets, "path of a file with one secret a line")
        let content = try self.content(.tokenSecrets, of: path)
        self.checkSecrecy(of: path)
        do {
            self.checkStrength(of: try TokenSecrets(file: content), path)
            return try TokenAuthority(path: path, content: content, brands: brands)
        } catch {
            throw SettingsError(.tokenSecrets, value: path, error.message)
        }
    }

    /// Warns of secrets that a person seems to have made up.
    private func checkStrength(of secrets: TokenSecrets, _ origin: String) {
        for line in secrets.weakLines {
            self.warn(
                "\(origin): the secret in line \(line) may be guessed; make one with: openssl rand -hex 32")
        }
    }

    /// All brands of a directory. If the configuration is only checked, a brand that fails is an error as well.
    public func brands(in directory: String, webServiceURL: String) throws(SettingsError) -> BrandLibrary {
        do {
            let library = try BrandLibrary(directory: directory, webServiceURL: webServiceURL)
            if self.isCheck, let failure = library.failures.first { throw failure.error }
            for path in BrandLibrary.keyFiles(in: directory) { self.checkSecrecy(of: path) }
            for type in library.brands.orderTypes {
                guard let secrets = library.brands[type]?.tokenSecrets else { continue }
                self.checkStrength(of: secrets, "tokenSecrets of brand \(type)")
            }
            return library
        } catch {
            throw SettingsError(.brands, value: directory, "\(error)")
        }
    }
}
