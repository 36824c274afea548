import Brands
import Cryptography
import Foundation
import Model
import TestKit
import Testing

@Suite struct BrandTests {
    @Test func aGoodBrandIsLoadedWhole() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png", "images/lamp.png", ".DS_Store", ".hidden/logo.png"])
            try folder.write(
                "brand.json",
                text: """
                    {"orderTypeIdentifier": "order.com.example.shop", "certificate": "certificate.pem",
                     "key": "key.pem", "intermediate": "intermediate.pem",
                     "push": {"authentication": "token", "key": "provider-key.p8", "keyIdentifier": "KEY1234567",
                              "teamIdentifier": "TEAM123456"},
                     "defaults": {"merchant": {"merchantIdentifier": "merchant.com.example", "displayName": "Shop",
                                               "url": "https://x.example"},
                                  "returnInfo": {"returnPolicyURL": "https://x.example"}},
                     "passUnknownMembers": true}
                    """)
            let brand = try folder.load()
            #expect(brand.orderType.rawValue == "order.com.example.shop")
            #expect(brand.rules.orderType == brand.orderType)
            #expect(brand.rules.merchant?["displayName"] == "Shop")
            #expect(brand.rules.returnInfo?["returnPolicyURL"] == "https://x.example")
            #expect(brand.rules.passUnknownMembers)
            #expect(brand.rules.webServiceURL == BrandFolder.webServiceURL)
            #expect(brand.signing.certificate.organizationalUnit == "TEAM123456")
            #expect(brand.assets.keys.sorted() == ["images/lamp.png", "logo.png"])
            guard case .token(let key, "KEY1234567", "TEAM123456") = brand.push else {
                Issue.record("\(brand.push)")
                return
            }
            #expect(String(decoding: key, as: UTF8.self).contains("PRIVATE KEY"))
            #expect(!"\(brand.push)".contains("PRIVATE"))
        }
    }

    @Test func theClientCertificateComesWithItsIntermediate() throws {
        try BrandFolder.with { folder in
            guard case .certificate(let chain, let key) = try folder.load().push else {
                Issue.record("not by certificate")
                return
            }
            #expect(String(decoding: chain, as: UTF8.self).components(separatedBy: "BEGIN CERTIFICATE").count == 3)
            #expect(String(decoding: key, as: UTF8.self).contains("PRIVATE KEY"))
        }
    }

    /// Each change to a good brand.json, with the text that the message must contain.
    private static let broken: [(String, JSON?, String)] = [
        ("orderTypeIdentifier", nil, "$.orderTypeIdentifier is missing"),
        ("orderTypeIdentifier", "shop", "$.orderTypeIdentifier: \"shop\" is not an order type identifier"),
        ("orderTypeIdentifier", "order.com.example.other", "it is for \"order.com.example.shop\""),
        ("certificate", nil, "$.certificate is missing"),
        ("certificate", 5, "$.certificate: must be a non-empty string, it is a number"),
        ("certificate", "../certificate.pem", "$.certificate: \"../certificate.pem\" must be a path relative"),
        ("certificate", "/etc/passwd", "must be a path relative"),
        ("certificate", "missing.pem", "missing.pem: it cannot be read: No such file"),
        ("certificate", "assets", "assets: it is not a regular file"),
        ("certificate", "brand.json", "no PEM text between BEGIN CERTIFICATE"),
        ("certificate", "server-certificate.pem", "it does not belong to the certificate"),
        ("key", "provider-key.p8", "an order type's key is RSA"),
        ("key", "root-key.pem", "it does not belong to the certificate"),
        ("intermediate", "root.pem", "did not issue the certificate"),
        ("retention", ["endedDays": 0], "$.retention.endedDays: 0 must be from 1 to 36500"),
        ("retention", ["endedDays": 36_501], "$.retention.endedDays: 36501 must be from 1 to 36500"),
        ("retention", ["endedDays": "90"], "$.retention.endedDays: must be a whole number, it is a string"),
        ("retention", [:], "$.retention.endedDays: is missing: give days from 1 to 36500"),
        ("retention", ["endedDays": 90, "openDays": 1], "$.retention.openDays is not a known member"),
        ("push", nil, "$.push is missing"),
        ("push", "certificate", "$.push: must be an object, it is a string"),
        ("push", ["authentication": "key"], "$.push.authentication: \"key\" must be \"certificate\" or \"token\""),
        ("push", ["authentication": "certificate", "key": "x"], "$.push.key is not a known member"),
        ("push", ["authentication": "token"], "$.push.key is missing"),
        (
            "push",
            [
                "authentication": "token", "key": "provider-key.p8", "keyIdentifier": "abc",
                "teamIdentifier": "TEAM123456",
            ],
            "$.push.keyIdentifier: \"abc\" is not ten of A-Z and 0-9"
        ),
        (
            "push",
            [
                "authentication": "token", "key": "key.pem", "keyIdentifier": "KEY1234567",
                "teamIdentifier": "TEAM123456",
            ],
            "key.pem: reading the provider key: it is not an elliptic key on P-256"
        ),
        ("defaults", [], "$.defaults: must be an object, it is an array"),
        ("defaults", ["merchant": "x"], "$.defaults.merchant: must be an object, it is a string"),
        ("push", ["authentication": "certificate", "types": "alert"], "$.push.types is not a known member"),
        (
            "push", ["authentication": "certificate", "type": "voip"],
            "$.push.type: \"voip\" must be \"background\" or \"alert\""
        ),
        ("push", ["authentication": "certificate", "type": 5], "$.push.type: must be a non-empty string"),
        ("push", ["authentication": "certificate", "priority": 7], "$.push.priority: 7 must be 1, 5 or 10"),
        ("push", ["authentication": "certificate", "priority": "5"], "$.push.priority: must be a whole number"),
        ("push", ["authentication": "certificate", "priority": 10], "$.push.priority: 10 is an error with background"),
        (
            "push", ["authentication": "certificate", "type": "background", "priority": 10],
            "$.push.priority: 10 is an error with background"
        ),
        (
            "push", ["authentication": "certificate", "expirationSeconds": -1],
            "$.push.expirationSeconds: -1 must be from 0 to 2592000"
        ),
        (
            "push", ["authentication": "certificate", "expirationSeconds": 2_592_001],
            "$.push.expirationSeconds: 2592001 must be from 0 to 2592000"
        ),
        (
            "push", ["authentication": "certificate", "expirationSeconds": [:]],
            "$.push.expirationSeconds: must be a whole number, it is an object"
        ),
        (
            "push", ["authentication": "certificate", "collapseIdentifier": ""],
            "$.push.collapseIdentifier: must be a non-empty string, it is a string"
        ),
        (
            "push",
            ["authentication": "certificate", "collapseIdentifier": .string(String(repeating: "x", count: 65))],
            "$.push.collapseIdentifier: has 65 bytes, at most 64"
        ),
        (
            "push", ["authentication": "certificate", "collapseIdentifier": "a b"],
            "$.push.collapseIdentifier: may have visible ASCII characters only"
        ),
        (
            "push", ["authentication": "certificate", "collapseIdentifier": "a\r\nb"],
            "$.push.collapseIdentifier: may have visible ASCII characters only"
        ),
        (
            "push", ["authentication": "certificate", "collapseIdentifier": "größe"],
            "$.push.collapseIdentifier: may have visible ASCII characters only"
        ),
        ("defaults", ["merchants": [:]], "$.defaults.merchants is not a known member"),
        ("defaults", ["merchant": ["displayName": "Shop"]], "$.defaults.merchant.merchantIdentifier is missing"),
        ("defaults", ["returnInfo": [:]], "$.defaults.returnInfo.returnPolicyURL is missing"),
        (
            "defaults", ["changeNotifications": "disabled"],
            "$.defaults.changeNotifications: \"disabled\" must be \"enabled\" or \"disabledIfAppInstalled\""
        ),
        ("defaults", ["changeNotifications": true], "$.defaults.changeNotifications: must be a non-empty string"),
        ("passUnknownMembers", "yes", "$.passUnknownMembers: must be true or false, it is a string"),
        ("passUnknownMember", true, "$.passUnknownMember is not a known member"),
        ("pictures", [], "$.pictures: must be an object, it is an array"),
        ("documents", [:], "$.documents.hosts is missing"),
        (
            "documents", ["hosts": ["*.example.com"], "authorization": ["host": "example.com", "file": "key"]],
            "$.documents.authorization.host: \"example.com\" must be one host that documents.hosts allows"
        ),
        (
            "documents", ["hosts": ["a.example.com"], "authorization": ["host": "a.example.com", "file": "key.pem"]],
            "key.pem: it must have one line of at most 4096 printable ASCII characters"
        ),
        ("documents", ["hosts": [], "bytes": 5_000_000], "$.documents.bytes: must be an integer from 1024 to 4500000"),
        ("pictures", [:], "$.pictures.hosts is missing"),
        ("pictures", ["hosts": "cdn.example.com"], "$.pictures.hosts: must be an array of strings, it is a string"),
        ("pictures", ["hosts": ["cdn.example.com", 1]], "$.pictures.hosts[1]: must be a string, it is a number"),
        ("pictures", ["hosts": ["*"]], "$.pictures.hosts: \"*\" must be a host such as cdn.example.com"),
        ("pictures", ["hosts": [], "host": 1], "$.pictures.host is not a known member"),
        ("pictures", ["hosts": [], "fit": "yes"], "$.pictures.fit: must be true or false, it is a string"),
        (
            "pictures", ["hosts": [], "background": "white"],
            "$.pictures.background: \"white\" must be # and six hexadecimal digits, such as #f5f5f7"
        ),
        (
            "pictures", ["hosts": [], "fit": false, "background": "#ffffff"],
            "$.pictures.background: has no use if fit is false"
        ),
        ("pictures", ["hosts": [], "ignoreQuery": "X"], "must be true, false or an array of strings, it is a string"),
        (
            "pictures", ["hosts": [], "ignoreQuery": [1]],
            "$.pictures.ignoreQuery[0]: must be a string, it is a number"
        ),
        (
            "pictures", ["hosts": [], "ignoreQuery": ["a=b"]],
            "$.pictures.ignoreQuery: must be true, or at most 100 names"
        ),
    ]

    @Test func eachMistakeIsNamedWithFileAndPlace() throws {
        try BrandFolder.with { folder in
            try folder.writeAssets(["logo.png"])
            for (member, value, message) in Self.broken {
                var object = BrandFolder.configuration().object ?? JSONObject()
                object[member] = value
                try folder.write("brand.json", JSON.object(object).serialized)
                let error = #expect(throws: BrandError.self, "\(member)") { try folder.load() }
                #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
                #expect(error?.message.hasPrefix(folder.path) == true, "\(error?.message ?? "")")
            }
            for text in ["", "{", "[]", "{\"push\": {}, \"push\": {}}"] {
                try folder.write("brand.json", text: text)
                let error = #expect(throws: BrandError.self) { try folder.load() }
                #expect(error?.code == .configuration)
                #expect(error?.message.contains("brand.json: ") == true)
            }
        }
    }

    @Test func aCertificateThatExpiredAtTheGivenTimeIsRefused() throws {
        let now = Int64(Date().timeIntervalSince1970)
        try BrandFolder.with(
            .init(
                orderType: "order.com.example.shop", notBeforeEpochSeconds: now - 90_000,
                notAfterEpochSeconds: now + 86_400)
        ) { folder in
            _ = try folder.load()
            let error = #expect(throws: BrandError.self) {
                try Brand.load(
                    directory: folder.path, webServiceURL: BrandFolder.webServiceURL,
                    nowEpochSeconds: now + 10 * 86_400 + 5)
            }
            #expect(error?.code == .certificate)
            #expect(error?.message.contains("expired 9 days ago; renew it") == true)
        }
    }

    @Test(arguments: [
        "http://wallet.example.com", "wallet.example.com", "https://", "https:///x", "https://wallet.example.com/?a=b",
        "https://user@wallet.example.com", "https://wallet.example.com/ä",
    ])
    func theWebServiceMustBeHTTPS(url: String) throws {
        let error = #expect(throws: BrandError.self) { try Brand.load(directory: "/nowhere", webServiceURL: url) }
        #expect(error?.message.contains("must look like https://") == true)
    }

    @Test func assetsThatCannotGoIntoPackagesAreRefused() throws {
        try BrandFolder.with { folder in
            func refused(_ message: String) {
                let error = #expect(throws: BrandError.self) { try folder.load() }
                #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
                try? FileManager.default.removeItem(atPath: folder.path + "/assets")
            }
            try folder.writeAssets(["order.json"])
            refused("packages have a file of this name already")
            try folder.writeAssets(["back\\slash.png"])
            refused("no backslash")
            try folder.write("assets/large.pdf", [UInt8](repeating: 0, count: 5_000_001))
            refused("it has 5000001 bytes")
            try folder.writeAssets(["logo.png"])
            try FileManager.default.createSymbolicLink(
                atPath: folder.path + "/assets/passwd.png", withDestinationPath: "/etc/passwd")
            refused("leads out of the directory")
            try folder.writeAssets(["logo.png"])
            try FileManager.default.createSymbolicLink(
                atPath: folder.path + "/assets/loop", withDestinationPath: folder.path + "/assets")
            refused("nested deeper")
            try folder.writeAssets(["logo.png"])
            try Program.run("mkfifo", [folder.path + "/assets/pipe.png"])
            refused("it is not a regular file")
        }
    }

    /// Kubernetes mounts files as links into a neighboring folder whose name begins with dots.
    @Test func linksInsideTheDirectoryAreFollowed() throws {
        try BrandFolder.with { folder in
            try folder.write("..2026/logo.png", SampleFile.png(seed: 1))
            try FileManager.default.createSymbolicLink(
                atPath: folder.path + "/..data", withDestinationPath: "..2026")
            try FileManager.default.createDirectory(
                atPath: folder.path + "/assets", withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(
                atPath: folder.path + "/assets/logo.png", withDestinationPath: "../..data/logo.png")
            #expect(try folder.load().assets.keys.sorted() == ["logo.png"])
        }
    }

    @Test func aDirectoryOfBrandsIsLoadedAndEachFailureIsNamed() throws {
        try BrandFolder.with { folder in
            let brands = folder.path + "-brands"
            defer { try? FileManager.default.removeItem(atPath: brands) }
            try FileManager.default.createDirectory(atPath: brands, withIntermediateDirectories: true)
            func load() throws -> BrandLibrary {
                try BrandLibrary(directory: brands, webServiceURL: BrandFolder.webServiceURL)
            }
            #expect(throws: BrandError.self) { try load() }
            try FileManager.default.copyItem(atPath: folder.path, toPath: brands + "/shop")
            try FileManager.default.createSymbolicLink(atPath: brands + "/..data", withDestinationPath: "shop")
            let loaded = try load().brands
            #expect(loaded.orderTypes.map(\.rawValue) == ["order.com.example.shop"])
            #expect(loaded[try OrderTypeIdentifier("order.com.example.shop")] != nil)
            #expect(loaded[try OrderTypeIdentifier("order.com.example.other")] == nil)

            try FileManager.default.copyItem(atPath: folder.path, toPath: brands + "/twin")
            let twice = try #require(try load().failures.first?.error)
            #expect(twice.message.contains("twin: "))
            #expect(twice.message.contains("already"))
            try FileManager.default.removeItem(atPath: brands + "/twin/key.pem")
            let broken = try #require(try load().failures.first?.error)
            #expect(broken.message.contains("twin/key.pem"))
        }
    }
}
