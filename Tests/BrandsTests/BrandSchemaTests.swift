import Model
import TestKit
import Testing

@testable import Brands

@Suite struct BrandSchemaTests {
    private static let files: [(name: String, file: JSON)] = [
        (
            "certificate",
            [
                "orderTypeIdentifier": "order.com.example.shop", "certificate": "a/certificate.pem", "key": "key.pem",
                "intermediate": "intermediate.pem", "tokenSecrets": "token-secrets",
                "push": [
                    "authentication": "certificate", "type": "alert", "priority": 10, "expirationSeconds": 60,
                    "collapseIdentifier": "orders",
                ],
                "defaults": [
                    "merchant": ["merchantIdentifier": "m", "displayName": "Shop", "url": "https://shop.example"],
                    "returnInfo": ["returnPolicyURL": "https://shop.example"], "changeNotifications": "enabled",
                ],
                "passUnknownMembers": false,
                "pictures": [
                    "hosts": ["cdn.example.com:8443", "*.example.com"], "ignoreQuery": ["Signature"], "fit": true,
                    "background": "#F5f5f7",
                ],
                "documents": [
                    "hosts": ["receipts.example.com"], "ignoreQuery": true,
                    "authorization": ["host": "receipts.example.com", "file": "receipts.authorization"],
                    "bytes": 1_000_000, "orderBytes": 2_000_000, "brandBytes": 0,
                ],
                "retention": ["endedDays": 90],
            ]
        ),
        (
            "token",
            [
                "orderTypeIdentifier": "order.com.example.shop", "certificate": "certificate.pem", "key": "key.pem",
                "intermediate": "intermediate.pem",
                "push": [
                    "authentication": "token", "key": "push.p8", "keyIdentifier": "KEY1234567",
                    "teamIdentifier": "TEAM123456", "priority": 5,
                ],
                "defaults": [
                    "merchant": [
                        "merchantIdentifier": "m", "displayName": "Shop", "url": "https://shop.example", "more": 1,
                    ]
                ], "passUnknownMembers": true,
                "pictures": ["hosts": [], "ignoreQuery": true, "fit": false],
            ]
        ),
    ]

    /// Each variant of two files that have all members: the schema accepts exactly those that a service takes.
    @Test func theSchemaAgreesWithTheReader() throws {
        let variants = try Self.files.flatMap { name, file in
            try SchemaProgram.judged(file, by: "brand").map { ("\(name): \($0.name)", $0.instance, $0.isAccepted) }
        }
        #expect(variants.count { $0.2 } > 15)
        for (name, instance, isAccepted) in variants {
            let isTaken = (try? BrandFile(instance.serialized)) != nil
            // No schema compares two members.
            if !isTaken, isAccepted, name.hasPrefix("certificate: documents") { continue }
            // The schema leaves defaults to the reader where unknown members pass.
            if !isTaken, isAccepted, name.hasPrefix("token: defaults.merchant") { continue }
            #expect(isTaken == isAccepted, "\(name): the reader says \(isTaken)")
        }
    }
}
