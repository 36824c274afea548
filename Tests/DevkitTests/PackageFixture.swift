import Brands
import Cryptography
import Foundation
import Model
import Packaging
import TestKit

@testable import Devkit

/// A good package and its ingredients, so that tests can introduce one defect at a time.
struct PackageFixture: Sendable {
    static let orderType = "order.com.example.shop"
    static let englishStrings = "\"WAITS\" = \"It waits\";\n\"CONTAINS_NUTS\" = \"Contains nuts\";\n"
    static let germanStrings =
        "/* Lager */\n\"CONTAINS_NUTS\" = \"Enthält Nüsse\"; // nuts\n\"WAITS\" = \"Es \\\"wartet\\\"\";\n"
    /// The shared fixture, made once; none of its files remain on disk.
    static let shared = Result { try PackageFixture() }

    /// PEM texts by the file names of `DevelopmentCertificates`.
    let pem: [String: [UInt8]]
    /// The same files of another authority, for another order type.
    let strangerPEM: [String: [UInt8]]
    /// A certificate of the same authority and order type that expired a minute ago.
    let expiredPEM: [String: [UInt8]]
    /// A certificate of the same authority and order type, valid from tomorrow.
    let earlyPEM: [String: [UInt8]]
    /// A certificate of the same authority for another order type.
    let otherTypePEM: [String: [UInt8]]
    /// The five example orders as Shared/Packaging builds them.
    let examples: [(name: String, package: [UInt8])]
    /// An order of the replay.
    let replayed: [UInt8]
    /// The package that tests change: a rich order in two languages and two resolutions.
    let package: [UInt8]
    /// The files of that package, in order.
    let files: [(name: String, content: [UInt8])]
    /// The time of signing, which the checks use as the current time.
    let nowEpochSeconds: Int64

    private init() throws {
        let directory = try TemporaryDirectory("packages")
        defer { directory.remove() }
        let now = Int64(Date().timeIntervalSince1970)
        let authority = directory.path("authority")
        let certificates = try DevelopmentCertificates.copy(to: authority)
        try OddCertificates.make(in: authority, orderType: Self.orderType)
        let stranger = "order.com.example.other"
        _ = try DevelopmentCertificates.make(in: directory.path("stranger"), orderType: stranger)
        func make(_ folder: String, _ orderType: String, from start: Int64, until end: Int64) throws {
            _ = try DevelopmentCertificates.make(
                in: directory.path(folder),
                .init(
                    orderType: orderType, notBeforeEpochSeconds: start, notAfterEpochSeconds: end, authority: authority)
            )
        }
        try make("expired", Self.orderType, from: now - 7200, until: now - 60)
        try make("early", Self.orderType, from: now + 86_400, until: now + 2 * 86_400)
        try make("other", stranger, from: now - 60, until: now + 86_400)
        let pem = { (folder: String, more: [String]) throws -> [String: [UInt8]] in
            let names = ["root", "root-key", "intermediate", "intermediate-key", "certificate", "key", "server-key"]
            let read = try (names + more).map { ($0, try directory.read("\(folder)/\($0).pem")) }
            return Dictionary(uniqueKeysWithValues: read)
        }
        self.pem = try pem("authority", OddCertificates.names)
        self.strangerPEM = try pem("stranger", [])
        self.expiredPEM = try pem("expired", [])
        self.earlyPEM = try pem("early", [])
        self.otherTypePEM = try pem("other", [])
        // Not earlier than the last certificate, which is valid from its creation.
        self.nowEpochSeconds = Int64(Date().timeIntervalSince1970)

        let plain = directory.path("plain")
        try DevelopmentBrand.make(in: plain, orderType: Self.orderType, certificates: certificates)
        let brand = try Brand.load(directory: plain, webServiceURL: "https://wallet.example.com/apple")
        let moment = self.nowEpochSeconds
        self.examples = try Self.exampleNames.map { name in
            (name, try Self.package(brand, Self.order(Self.example(name), brand.rules), moment))
        }
        let story = OrderStory(OlistTable.generate(1, seed: 1)[0])
        self.replayed = try Self.package(
            brand, Self.order((story.order.identifier, story.expected), brand.rules), moment)

        let localized = directory.path("localized")
        try DevelopmentBrand.make(in: localized, orderType: Self.orderType, certificates: certificates)
        try Self.localize("\(localized)/assets")
        let languages = try Brand.load(directory: localized, webServiceURL: "https://wallet.example.com/apple")
        self.package = try Self.package(languages, Self.order(Self.richOrder(), languages.rules), moment)
        self.files = ZipReader(self.package).entries.map { ($0.name, $0.content) }
    }

    /// Adds two languages, each with its own picture and one in UTF-16, and a second resolution of the logo.
    private static func localize(_ assets: String) throws {
        let url = { (name: String) in URL(fileURLWithPath: "\(assets)/\(name)") }
        for language in ["de", "en"] {
            try FileManager.default.createDirectory(at: url("\(language).lproj"), withIntermediateDirectories: true)
            try Data(SampleFile.png(seed: language == "de" ? 40 : 41)).write(to: url("\(language).lproj/plum.png"))
        }
        try FileManager.default.removeItem(at: url("plum.png"))
        try Data(SampleFile.png(seed: 42, side: 600)).write(to: url("logo@2x.png"))
        try Data(Self.englishStrings.utf8).write(to: url("en.lproj/order.strings"))
        let units = Self.germanStrings.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        try Data([0xFF, 0xFE] + units).write(to: url("de.lproj/order.strings"))
    }

    private static let exampleNames = [
        "01-shipping-multi-fulfillment", "02-pickup-barcode", "03-return-refund", "04-static-receipt-minimal",
        "05-schema2-order-provider",
    ]

    /// Returns an example order's identifier and document.
    static func example(_ name: String) throws -> (identifier: String, document: JSONObject) {
        let file = try Data(
            contentsOf: Repository.root.appending(path: "Shared/Model/Schemas/examples/\(name).order.json"))
        let (document, identifier) = try OrderFile.document(from: JSON(parsing: Array(file)), keepsToken: false)
        return (identifier ?? "", document.object ?? JSONObject())
    }

    /// Returns one order with the return, its receipts and label, and the pickup, its place and barcode.
    private static func richOrder() throws -> (identifier: String, document: JSONObject) {
        var (identifier, order) = try Self.example("03-return-refund")
        let pickup = try Self.example("02-pickup-barcode").document["fulfillments"]?.array ?? []
        order["fulfillments"] = .array((order["fulfillments"]?.array ?? []) + pickup)
        return (identifier, order)
    }

    private static func order(
        _ order: (identifier: String, document: JSONObject), _ rules: BrandRules
    ) throws -> JSON {
        let state = OrderState(
            key: try OrderKey("\(Self.orderType)/\(order.identifier)"),
            document: OrderDocument(members: order.document),
            token: try AuthenticationToken("0123456789abcdef0123456789abcdef"), version: 1,
            modifiedEpochSeconds: 1_800_000_000)
        return state.orderJSON(rules: rules)
    }

    private static func package(_ brand: Brand, _ order: JSON, _ moment: Int64) throws -> [UInt8] {
        let package = try PackageBuilder(brand).build(order, signingEpochSeconds: moment)
        let assets = Dictionary(uniqueKeysWithValues: brand.assets.values.map { ($0.entryDigest, $0.entry) })
        return package.assets.flatMap { assets[$0] ?? [] } + package.head + package.certificates.bytes + package.tail
    }

    /// Returns the content of one file.
    func content(_ name: String) -> [UInt8] { self.files.first { $0.name == name }?.content ?? [] }

    func identity(_ pem: [String: [UInt8]]) throws -> SigningIdentity {
        try SigningIdentity(
            certificatePEM: pem["certificate"] ?? [], privateKeyPEM: pem["key"] ?? [],
            intermediatePEM: pem["intermediate"] ?? [])
    }

    /// Returns a signature of the manifest that the `openssl` program makes with these arguments.
    ///
    /// Names such as `certificate.pem` in the arguments are files of the authority. Several `-certfile` are joined into
    /// one file, since the program accepts only one.
    func signatureByOpenSSL(_ arguments: [String]) throws -> [UInt8] {
        let directory = try TemporaryDirectory("cms")
        defer { directory.remove() }
        for (name, content) in self.pem { try directory.write("\(name).pem", content) }
        try directory.write("manifest.json", self.content("manifest.json"))
        var placed: [String] = []
        var inside: [UInt8] = []
        for (index, argument) in arguments.enumerated() where argument != "-certfile" {
            if index > 0, arguments[index - 1] == "-certfile" {
                inside += try directory.read(argument)
            } else {
                placed.append(argument.hasSuffix(".pem") ? directory.path(argument) : argument)
            }
        }
        if !inside.isEmpty { placed += ["-certfile", try directory.write("inside.pem", inside)] }
        try OpenSSLProgram.run(
            ["cms", "-sign", "-binary", "-outform", "DER", "-in", directory.path("manifest.json"), "-out"]
                + [directory.path("signature")] + placed)
        return try directory.read("signature")
    }

    /// Returns the violations that the verifier finds in a package.
    /// - Parameter later: seconds between signing and verification.
    func violations(
        _ package: [UInt8], check: SignatureCheck = .cryptography, roots: [UInt8]? = nil, later: Int64 = 0
    ) async throws -> [PackageViolation] {
        let verifier = try PackageVerifier(rootsPEM: roots ?? self.pem["root"] ?? [], signatureCheck: check)
        return await verifier.verify(package, nowEpochSeconds: self.nowEpochSeconds + later).violations
    }
}
