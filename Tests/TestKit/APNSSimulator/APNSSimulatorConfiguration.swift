import Foundation

/// How the simulator behaves from the start.
public struct APNSSimulatorConfiguration: Sendable {
    /// The server's certificate and those behind it, PEM.
    public var certificateChainPEM: [UInt8]
    public var privateKeyPEM: [UInt8]
    /// What client certificates are verified against; nil: none is asked for.
    public var trustPEM: [UInt8]?
    /// Topics that may be pushed to; empty: any with a provider token.
    public var topics: Set<String> = []
    /// Keys that provider tokens must be signed with; empty: their form and age are checked, not their signature.
    public var providerKeys: [APNSSimulatorProviderKey] = []
    /// 0: a free one.
    public var port = 0
    /// 0: a free one.
    public var adminPort = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS; with provider tokens it is 1 until the first valid one.
    public var maxConcurrentStreams = 1000
    /// How late every answer comes.
    public var delayMilliseconds = 0
    /// What random faults and delays are drawn from.
    public var seed: UInt64 = 1
    /// Whether answers carry `apns-unique-id`, as those of Apple's development environment do.
    public var isDevelopment = false
    /// How many deliveries are kept, and how many events of the journal.
    public var journalLimit = 200_000
    /// The clock.
    public var nowEpochMilliseconds: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    public init(certificateChainPEM: [UInt8], privateKeyPEM: [UInt8], trustPEM: [UInt8]? = nil) {
        self.certificateChainPEM = certificateChainPEM
        self.privateKeyPEM = privateKeyPEM
        self.trustPEM = trustPEM
    }

    /// With the server certificate of a directory that `DevelopmentCertificates` made. Its root and intermediate are
    /// trusted, so a client may send its leaf alone.
    /// - Throws: `APNSSimulatorError` when a file cannot be read.
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
