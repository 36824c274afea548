import Model
import TestKit

@testable import Devkit

extension BrokenPackage {
    /// Returns a case with one value of order.json replaced or removed.
    private static func order(
        _ path: String, _ value: JSON?, _ code: ViolationCode, mention: String
    ) -> BrokenPackage {
        BrokenPackage("\(path) = \(value?.text ?? "none")", code, mention: mention) { draft, _ in
            try draft.order(path, value)
        }
    }

    static let orders: [BrokenPackage] = [
        Self.order("status", nil, .orderMemberMissing, mention: "$.status"),
        Self.order("merchant.displayName", nil, .orderMemberMissing, mention: "$.merchant.displayName"),
        Self.order("payment.status", nil, .orderMemberMissing, mention: "schemaVersion 1 requires it"),
        Self.order("fulfillments.1.displayName", nil, .orderMemberMissing, mention: "$.fulfillments[1].displayName"),
        Self.order("schemaVersion", 3, .orderValue, mention: "$.schemaVersion"),
        Self.order("schemaVersion", "1", .orderMemberKind, mention: "a number, it is a string"),
        Self.order("orderType", "shop", .orderValue, mention: "ecommerce"),
        Self.order("status", "canceled", .orderValue, mention: "cancelled"),
        Self.order("fulfillments.0.status", "pickedUp", .orderValue, mention: "$.fulfillments[0].status"),
        Self.order("fulfillments.0.fulfillmentType", "drone", .orderValue, mention: "shipping, pickup"),
        Self.order("returns.0.status", "returned", .orderValue, mention: "$.returns[0].status"),
        Self.order("payment.transactions.1.transactionType", "chargeback", .orderValue, mention: "purchase, refund"),
        Self.order("fulfillments.1.barcode.format", "ean13", .orderValue, mention: "qr, pdf417"),
        Self.order("lineItems", [:], .orderMemberKind, mention: "an array"),
        Self.order("lineItems.0.quantity", "2", .orderMemberKind, mention: "$.lineItems[0].quantity"),
        Self.order("payment.total.amount", 210, .orderMemberKind, mention: "$.payment.total.amount"),
        Self.order("payment.total.amount", "210,00", .orderValue, mention: "19.99"),
        Self.order("payment.total.currency", "pounds", .orderValue, mention: "3 capital letters"),
        Self.order("fulfillments.1.address.countryCode", "DEU", .orderValue, mention: "2 capital letters"),
        Self.order("fulfillments.1.location.latitude", 91, .orderValue, mention: "$.fulfillments[1].location.latitude"),
        Self.order("createdAt", "2025-01-08 19:30", .orderDate, mention: "$.createdAt"),
        Self.order("createdAt", "2025-02-29T12:00:00Z", .orderDate, mention: "2025-02-29"),
        Self.order("returns.0.dropOffBy", "2025-01-31T18:00:00", .orderDate, mention: "with zone"),
        Self.order("fulfillments.1.pickupWindowDuration", "90 min", .orderDuration, mention: "PT1H30M"),
        Self.order("merchant.url", "www.example.com", .orderLink, mention: "$.merchant.url"),
        Self.order("updatedAt", "2001-01-01T00:00:00Z", .orderUpdatedEarly, mention: "before createdAt"),
        Self.order("orderTypeIdentifier", "order.com.example.other", .orderTypeMismatch, mention: "certificate's"),
        Self.order("webServiceURL", "http://wallet.example.com/", .orderServiceURL, mention: "https://"),
        Self.order("authenticationToken", nil, .orderToken, mention: "webServiceURL needs one"),
        Self.order("authenticationToken", "0123456789abcde", .orderToken, mention: "15 characters"),
        Self.order(
            "fulfillments.1.fulfillmentIdentifier", "parcel-1", .orderIdentifierTwice, mention: "fulfillments[1]"),
        Self.order("merchant.logo", "missing.png", .orderFileMissing, mention: "$.merchant.logo"),
        Self.order("lineItems.0.image", "https://cdn.example/a.png", .orderFileName, mention: "URL"),
        Self.order("merchant.logo", "logo@2x.png", .orderFileName, mention: "variant"),
        Self.order("payment.transactions.0.receipt", "../receipt.pdf", .orderFileName, mention: "receipt"),
        Self.order("lineItems.0.image", "return-label.pdf", .fileContent, mention: "a PNG or JPEG, it is PDF"),
        BrokenPackage("an order with a byte order mark", .orderUnreadable, mention: "byte order mark") { draft, _ in
            draft["order.json"] = [0xEF, 0xBB, 0xBF] + (draft["order.json"] ?? [])
        },
        BrokenPackage("an order that is cut", .orderUnreadable, mention: "order.json") { draft, _ in
            draft["order.json"]?.removeLast()
        },
        BrokenPackage("an order that is a list", .orderUnreadable, mention: "an array") { draft, _ in
            draft["order.json"] = Array("[]".utf8)
        },
        BrokenPackage("a GIF for a logo", .fileContent, mention: "\"logo.png\"") { draft, _ in
            draft["logo.png"] = Array("GIF89a".utf8)
        },
        BrokenPackage("a JPEG that is called PNG", .fileContent, mention: "its name says PNG") { draft, _ in
            draft["logo@2x.png"] = SampleFile.jpeg(seed: 3)
        },
        BrokenPackage("HTML for a receipt", .fileContent, mention: "\"receipt-refund.pdf\"") { draft, _ in
            draft["receipt-refund.pdf"] = Array("<html>".utf8)
        },
    ]

    static let languages: [BrokenPackage] = [
        BrokenPackage("no order.strings", .localizationStringsMissing, mention: "\"de.lproj\"") { draft, _ in
            draft["de.lproj/order.strings"] = nil
        },
        BrokenPackage("a key less", .localizationKeysDiffer, mention: "\"en.lproj\": It lacks the key") { draft, _ in
            draft["en.lproj/order.strings"] = Array(#""WAITS" = "It waits";"#.utf8)
        },
        BrokenPackage("a key twice", .localizationKeyTwice, mention: "\"WAITS\"") { draft, _ in
            draft["en.lproj/order.strings"]?.append(contentsOf: Array("\n\"WAITS\" = \"again\";\n".utf8))
        },
        BrokenPackage("umlauts in UTF-8", .localizationEncoding, mention: "UTF-16 with a byte order mark") { draft, _ in
            draft["de.lproj/order.strings"] = Array(PackageFixture.germanStrings.utf8)
        },
        BrokenPackage("umlauts in Latin-1", .localizationEncoding, mention: "neither") { draft, _ in
            draft["de.lproj/order.strings"] = PackageFixture.germanStrings.unicodeScalars.map {
                UInt8(truncatingIfNeeded: $0.value)
            }
        },
        BrokenPackage("UTF-16 without its mark", .localizationEncoding, mention: "looks like UTF-16") { draft, _ in
            draft["de.lproj/order.strings"]?.removeFirst(2)
        },
        BrokenPackage("a semicolon less", .localizationStringsSyntax, mention: "line 3") { draft, _ in
            draft["en.lproj/order.strings"] = Array("/* one\n   two */\n\"WAITS\" = \"It waits\"\n".utf8)
        },
        BrokenPackage("a picture less", .localizationFilesDiffer, mention: "\"de.lproj\": It lacks the file") {
            draft, _ in
            draft["de.lproj/plum.png"] = nil
        },
        BrokenPackage("a resolution more", .localizationFilesDiffer, mention: "\"plum@2x.png\"") { draft, _ in
            draft["en.lproj/plum@2x.png"] = SampleFile.png(seed: 9)
        },
        BrokenPackage("a picture at the root as well", .localizationRootShadows, mention: "\"plum.png\"") { draft, _ in
            draft["plum.png"] = SampleFile.png(seed: 9)
        },
        BrokenPackage("a folder that is no language", .localizationFolder, mention: "\"german.lproj\"") { draft, _ in
            for file in ["order.strings", "plum.png"] {
                draft["german.lproj/\(file)"] = draft["de.lproj/\(file)"]
                draft["de.lproj/\(file)"] = nil
            }
        },
        BrokenPackage("a variant without its plain file", .scaleWithoutPlain, mention: "\"badge@3x.png\"") { draft, _ in
            draft["badge@3x.png"] = SampleFile.png(seed: 9)
        },
    ]
}
