import Foundation

/// The simulator's initial configuration.
public struct APNSSimulatorConfiguration: Sendable {
    /// The server's certificate and its intermediates, PEM.
    public var certificateChainPEM: [UInt8]
    public var privateKeyPEM: [UInt8]
    /// The roots for client certificates; nil requests no certificate.
    public var trustPEM: [UInt8]?
    /// The topics that may be pushed to; empty allows any with a provider token.
    public var topics: Set<String> = []
    /// The keys that may sign provider tokens; if empty, only the form and age of a token are checked, not its
    /// signature.
    public var providerKeys: [APNSSimulatorProviderKey] = []
    /// The address that both ports are opened on.
    public var host = "127.0.0.1"
    /// 0 chooses a free one.
    public var port = 0
    /// 0 chooses a free one.
    public var adminPort = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS; with provider tokens it is 1 until the first valid one.
    public var maxConcurrentStreams = 1000
    /// The delay of every answer for which no fault sets another.
    public var delayMilliseconds = 0
    /// The seed of random faults and delays.
    public var seed: UInt64 = 1
    /// True if answers carry `apns-unique-id`, as those of Apple's development environment do.
    public var isDevelopment = false
    /// The most deliveries kept, and the most events kept.
    public var journalLimit = 200_000
    /// The clock.
    public var nowEpochMilliseconds: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    public init(certificateChainPEM: [UInt8], privateKeyPEM: [UInt8], trustPEM: [UInt8]? = nil) {
        self.certificateChainPEM = certificateChainPEM
        self.privateKeyPEM = privateKeyPEM
        self.trustPEM = trustPEM
    }

    /// Makes a configuration with the server certificate of a directory made by `DevelopmentCertificates`. Its root and
    /// intermediate are trusted, so a client may send its leaf alone.
    /// - Throws: `APNSSimulatorError` if a file cannot be read.
    public init(certificates directory: String) throws(APNSSimulatorError) {
        self.init(
            certificateChainPEM: try Self.read(directory + "/server-certificate.pem"),
            privateKeyPEM: try Self.read(directory + "/server-key.pem"),
            trustPEM: try Self.read(directory + "/root.pem") + Self.read(directory + "/intermediate.pem"))
    }

    /// Reads a whole file.
    /// - Throws: `APNSSimulatorError` with the path.
    public static func read(_ path: String) throws(APNSSimulatorError) -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw APNSSimulatorError(description: "reading \(path): not there or not readable")
        }
        return [UInt8](data)
    }
}
