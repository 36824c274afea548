import Foundation
import Model
import TestKit
import Testing

@testable import Checkout

@Suite struct MerchantSchemaTests {
    private static var file: JSON {
        [
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop", "certificate": "identity.pem",
            "key": "key.pem", "environments": ["production", "sandbox"], "regions": ["cn"], "legacyHosts": true,
            "orderTypeIdentifiers": ["order.com.example.shop"], "capabilities": ["order_tracking"],
            "origins": ["https://shop:8443": ["association": "association", "frames": ["pay.example.com"]]],
            "payment": [
                "countryCode": "DE", "currencyCode": "EUR", "supportedNetworks": ["visa"],
                "merchantCapabilities": ["supports3DS"],
                "touchIcons": [["sizes": "64x64", "href": "https://shop.example/icon.png"]],
            ],
            "upstream": [
                "url": "https://shop.example/pay", "secret": "secret", "addresses": ["10.0.0.1"], "roots": "roots.pem",
                "takesPayments": true,
            ],
            "confirm": [
                "mode": "forward", "url": "https://provider.example/{id}/confirm", "authorization": "secret",
                "addresses": ["10.0.0.1"], "roots": "roots.pem",
            ],
            "foreignWebServices": ["https://other.example/wallet"],
            "webhooks": [
                "orders": ["signature": "stripe", "topic": "shop.orders", "secret": "secret", "key": "data.object.id"]
            ],
            "keys": [
                [
                    "name": "shop", "sha256": .string(String(repeating: "0a", count: 32)), "scopes": ["links"],
                    "orderTypeIdentifiers": ["order.com.example.shop"],
                ]
            ],
        ]
    }

    /// Variants in which something is a text or a list of texts as it must be, and wrong in a way that no schema sees:
    /// a file that is missing, an order type that is not the merchant's, an address.
    private static func isBeyondSchemas(_ name: String) -> Bool {
        let members = ["certificate", "key", "association", "secret", "authorization", "roots"]
        return members.contains { name.hasSuffix("\($0) = \"x\"") } || name.contains("orderTypeIdentifiers")
            || name.contains("addresses")
    }

    @Test func theSchemaAgreesWithTheReader() throws {
        let directory = try TemporaryDirectory("merchants")
        let identity = try AppleSessions.identity("merchant.com.example.shop", named: "shop")
        let certificates = try DevelopmentCertificates.copy(
            to: directory.path("ca"), orderType: "order.com.example.shop")
        try directory.write("identity.pem", identity.certificate)
        try directory.write("key.pem", identity.key)
        try directory.write("roots.pem", [UInt8](Data(contentsOf: URL(filePath: certificates.root))))
        try directory.write("association", Array("x".utf8))
        try directory.write("secret", Array("Bearer of a long secret".utf8))
        let variants = try SchemaProgram.judged(Self.file, by: "merchant")
        #expect(variants.count { $0.isAccepted } > 20)
        let folder = URL(filePath: directory.path("merchant.json")).deletingLastPathComponent().path()
        for (name, instance, isAccepted) in variants {
            try directory.write("merchant.json", instance.serialized)
            let loading = Merchant.Loading(serves: { _ in true }, topics: Topics(), isDevelopment: false)
            let now = Int64(Date().timeIntervalSince1970)
            let reading = Result { try Merchant.load(directory: folder, name: "shop", loading, nowEpochSeconds: now) }
            let isTaken = (try? reading.get()) != nil
            if !isTaken, isAccepted, Self.isBeyondSchemas(name) { continue }
            #expect(isTaken == isAccepted, "\(name): \(reading)")
        }
    }
}
