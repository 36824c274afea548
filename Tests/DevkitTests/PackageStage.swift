import Cryptography
import Foundation
import Model
import Packaging
import TestKit

@testable import Devkit

/// A good package with what it was made of, so that tests can spoil one thing at a time.
struct PackageStage: Sendable {
    static let orderType = "order.com.example.shop"
    /// Made once; nothing of it stays on the disk.
    static let shared = Result { try PackageStage() }

    /// PEM texts by the file names of `DevelopmentCertificates`.
    let pem: [String: [UInt8]]
    /// The same of another authority, for another order type.
    let strangerPEM: [String: [UInt8]]
    /// A certificate of the same authority for the order type, that ended a minute ago.
    let expiredPEM: [String: [UInt8]]
    /// As Shared/Packaging builds it.
    let package: [UInt8]
    /// Its files in their order.
    let files: [(name: String, content: [UInt8])]
    /// When it was signed, and what the checks take for now.
    let nowEpochSeconds: Int64

    private init() throws {
        let directory = try TemporaryDirectory("packages")
        defer { directory.remove() }
        let now = Int64(Date().timeIntervalSince1970)
        let authority = directory.path("authority")
        let certificates = try DevelopmentCertificates.make(in: authority, orderType: Self.orderType)
        _ = try DevelopmentCertificates.make(in: directory.path("stranger"), orderType: "order.com.example.other")
        _ = try DevelopmentCertificates.make(
            in: directory.path("expired"),
            .init(
                orderType: Self.orderType, notBeforeEpochSeconds: now - 7200, notAfterEpochSeconds: now - 60,
                authority: authority))
        let pem = { (folder: String) throws -> [String: [UInt8]] in
            let names = ["root", "root-key", "intermediate", "intermediate-key", "certificate", "key", "server-key"]
            let read = try names.map { ($0, try directory.read("\(folder)/\($0).pem")) }
            return Dictionary(uniqueKeysWithValues: read)
        }
        self.pem = try pem("authority")
        self.strangerPEM = try pem("stranger")
        self.expiredPEM = try pem("expired")
        // Not before the last certificate, which holds from its making on.
        self.nowEpochSeconds = Int64(Date().timeIntervalSince1970)
        try DevelopmentBrand.make(
            in: directory.path("brand"), orderType: Self.orderType, certificates: certificates)
        let brand = try Brand.load(
            directory: directory.path("brand"), webServiceURL: "https://wallet.example.com/apple")
        let package = try PackageBuilder(brand).build(Self.order(brand.rules), signingEpochSeconds: self.nowEpochSeconds)
        let assets = Dictionary(uniqueKeysWithValues: brand.assets.values.map { ($0.entryDigest, $0.entry) })
        self.package = package.head + package.assets.flatMap { assets[$0] ?? [] } + package.tail
        self.files = ZipReader(self.package).entries.map { ($0.name, $0.content) }
    }

    private static func order(_ rules: BrandRules) throws -> JSON {
        let story = OrderStory(OlistTable.generate(1, seed: 1)[0])
        let key = try OrderKey("\(Self.orderType)/\(story.order.identifier)")
        let state = OrderState(
            key: key, document: OrderDocument(members: story.expected),
            token: try AuthenticationToken("0123456789abcdef0123456789abcdef"), version: 1,
            modifiedEpochSeconds: 1_800_000_000)
        return state.orderJSON(rules: rules)
    }

    /// The content of one file.
    func content(_ name: String) -> [UInt8] { self.files.first { $0.name == name }?.content ?? [] }

    /// The files with one changed, added or (with nil) left out; manifest and signature made anew if wished.
    func changed(
        _ name: String, _ content: [UInt8]?, manifest remakesManifest: Bool = true, sign: Bool = true
    ) throws -> [(name: String, content: [UInt8])] {
        var files = self.files
        if let index = files.firstIndex(where: { $0.name == name }) {
            if let content { files[index].content = content } else { files.remove(at: index) }
        } else if let content {
            files.append((name, content))
        }
        guard let place = files.firstIndex(where: { $0.name == "manifest.json" }) else { return files }
        if remakesManifest {
            let listed = files.filter { $0.name != "manifest.json" && $0.name != "signature" }
            files[place].content =
                JSON.object(JSONObject(listed.map { ($0.name, JSON.string(SHA256.hex($0.content))) })).serialized
        }
        if sign, let signature = files.firstIndex(where: { $0.name == "signature" }) {
            files[signature].content = try self.identity(self.pem).sign(
                files[place].content, signingEpochSeconds: self.nowEpochSeconds)
        }
        return files
    }

    /// The files with order.json changed, and all that follows from it.
    func changedOrder(_ change: (inout JSONObject) -> Void) throws -> [(name: String, content: [UInt8])] {
        var order = try JSON(parsing: self.content("order.json")).object ?? JSONObject()
        change(&order)
        return try self.changed("order.json", JSON.object(order).serialized)
    }

    func identity(_ pem: [String: [UInt8]]) throws -> SigningIdentity {
        try SigningIdentity(
            certificatePEM: pem["certificate"] ?? [], privateKeyPEM: pem["key"] ?? [],
            intermediatePEM: pem["intermediate"] ?? [])
    }

    /// The files with a signature that the `openssl` program made with these arguments.
    ///
    /// Names such as `certificate.pem` in the arguments are files of the authority.
    func signedByOpenSSL(_ arguments: [String]) throws -> [(name: String, content: [UInt8])] {
        let directory = try TemporaryDirectory("cms")
        defer { directory.remove() }
        for (name, content) in self.pem { try directory.write("\(name).pem", content) }
        try directory.write("manifest.json", self.content("manifest.json"))
        let placed = arguments.map { $0.hasSuffix(".pem") ? directory.path($0) : $0 }
        try OpenSSLProgram.run(
            ["cms", "-sign", "-binary", "-outform", "DER", "-in", directory.path("manifest.json"), "-out"]
                + [directory.path("signature")] + placed)
        return try self.changed("signature", directory.read("signature"), manifest: false, sign: false)
    }

    /// What the verifier says of these files, packed by Python.
    func violations(
        _ files: [(name: String, content: [UInt8])], check: PackageVerifier.SignatureCheck = .cryptography
    ) async throws -> [String] {
        try await self.violations(package: PythonZip.archive(files, compressing: ["order.json"]), check: check)
    }

    /// What the verifier says of a package.
    /// - Parameter later: seconds between the signing and the look at it.
    func violations(
        package: [UInt8], check: PackageVerifier.SignatureCheck = .cryptography, roots: [UInt8]? = nil,
        later: Int64 = 0
    ) async throws -> [String] {
        let verifier = try PackageVerifier(rootsPEM: roots ?? self.pem["root"] ?? [], signatureCheck: check)
        return await verifier.verify(package, nowEpochSeconds: self.nowEpochSeconds + later).violations
    }
}
