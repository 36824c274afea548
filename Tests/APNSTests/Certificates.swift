import TestKit

/// The certificates of all tests in this target, kept in memory.
struct Certificates: Sendable {
    let root: [UInt8]
    /// The order type's certificate with its intermediate.
    let client: [UInt8]
    let clientKey: [UInt8]
    let server: [UInt8]
    let serverKey: [UInt8]
    /// A `.p8` file of a team.
    let providerKey: [UInt8]
    /// The provider key of another team.
    let strangeProviderKey: [UInt8]
    /// A root that signed none of them.
    let strangeRoot: [UInt8]

    static let shared = Result { try Certificates() }

    private init() throws {
        let directory = try TemporaryDirectory("apns")
        let files = try DevelopmentCertificates.copy(to: directory.path)
        func read(_ path: String) throws -> [UInt8] {
            try directory.read(String(path.dropFirst(directory.path.count + 1)))
        }
        self.root = try read(files.root)
        self.client = try read(files.certificate) + read(files.intermediate)
        self.clientKey = try read(files.key)
        self.server = try read(files.serverCertificate)
        self.serverKey = try read(files.serverKey)
        self.providerKey = try read(files.providerKey)
        let strange = try TemporaryDirectory("apns-strange")
        let other = try DevelopmentCertificates.make(in: strange.path, orderType: "order.com.example.other")
        self.strangeRoot = try strange.read(String(other.root.dropFirst(strange.path.count + 1)))
        self.strangeProviderKey = try strange.read(String(other.providerKey.dropFirst(strange.path.count + 1)))
    }
}
