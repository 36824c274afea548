import Foundation
import TestKit
import Testing

@testable import Model

/// The tables of Wallet Orders §3, written a second time and compared with the validator.
@Suite struct OrderSchemaTests {
    private func isValid(_ order: JSON) -> Bool {
        OrderValidator.violations(in: order, allowUnknownMembers: false, nowEpochSeconds: nil, files: .names).isEmpty
    }

    /// Returns an order with every member, in two variants where members exclude each other.
    private func order(_ fulfillment: JSON, barcode: JSON = "qr") -> JSON {
        let address: JSON = [
            "addressLines": ["1 Road"], "locality": "a", "subLocality": "b", "administrativeArea": "c",
            "subAdministrativeArea": "d", "postalCode": "e", "countryCode": "DE",
        ]
        let amount: JSON = ["amount": "19.99", "currency": "EUR"]
        let item: JSON = [
            "title": "t", "quantity": 1, "subtitle": "s", "price": amount, "image": "a.png", "sku": "x", "gtin": "1",
        ]
        let code: JSON = ["format": barcode, "message": "m", "messageEncoding": "iso-8859-1", "altText": "a"]
        let day: JSON = "2025-03-05T16:02:11Z"
        let url: JSON = "https://shop.example/"
        return [
            "schemaVersion": 1, "orderType": "ecommerce", "orderTypeIdentifier": "order.com.example.shop",
            "orderIdentifier": "1", "createdAt": day, "updatedAt": day, "status": "open", "orderManagementURL": url,
            "orderNumber": "n", "statusDescription": "s", "changeNotifications": "enabled", "webServiceURL": url,
            "authenticationToken": "0123456789abcdef", "barcode": code, "lineItems": [item],
            "associatedApplicationIdentifiers": ["TEAM.app"],
            "associatedApplications": [
                ["storeIdentifier": 1, "customProductPageIdentifier": "c", "launchURL": "app://x"]
            ],
            "merchant": [
                "merchantIdentifier": "m", "displayName": "d", "url": url, "logo": "logo.png", "address": address,
                "businessChatURL": url, "contactURL": url, "emailAddress": "a@b.example", "phoneNumber": "1",
            ],
            "customer": [
                "givenName": "g", "familyName": "f", "organizationName": "o", "emailAddress": "a@b.example",
                "phoneNumber": "1",
            ],
            "payment": [
                "total": amount, "status": "paid", "summaryItems": [["label": "l", "value": amount]],
                "paymentMethods": ["p"], "applePayTransactionIdentifiers": ["a"],
                "transactions": [
                    [
                        "amount": amount, "createdAt": day, "paymentMethod": ["displayName": "p"],
                        "status": "completed", "transactionType": "purchase", "applePayTransactionIdentifier": "a",
                        "receipt": "receipt.pdf",
                    ]
                ],
            ],
            "fulfillments": [fulfillment.setting([item], "lineItems").setting(nil, "none")],
            "returns": [
                [
                    "returnIdentifier": "r", "status": "open", "statusDescription": "s", "notes": "n", "carrier": "c",
                    "initiatedAt": day, "dropOffBy": day, "returnedAt": day, "returnNumber": "1",
                    "returnLabel": "label.pdf", "returnManagementURL": url, "lineItems": [item],
                ]
            ],
            "returnInfo": [
                "returnPolicyURL": url, "returnPolicyDescription": "d", "returnManagementURL": url,
                "returnDeadline": day, "displayCountdown": true,
            ],
            "orderProvider": [
                "displayName": "p", "url": url, "trackingLogoNameLightColorScheme": "light.png",
                "trackingLogoNameDarkColorScheme": "dark.png",
            ],
        ]
    }

    private var shipping: JSON {
        [
            "fulfillmentType": "shipping", "fulfillmentIdentifier": "f", "status": "open", "statusDescription": "s",
            "shippingType": "delivery", "carrier": "c", "trackingNumber": "t", "trackingURL": "https://t.example/",
            "shippedAt": "2025-03-05T16:02:11Z", "deliveredAt": "2025-03-05T16:02:11+01:00",
            "estimatedDeliveryAt": "2025-03-05T16:02:11.5Z", "estimatedDeliveryWindowDuration": "PT2H",
            "recipient": [
                "address": [:], "givenName": "g", "familyName": "f", "organizationName": "o",
            ],
            "notes": "n",
        ]
    }

    private var pickup: JSON {
        [
            "fulfillmentType": "pickup", "fulfillmentIdentifier": "f", "displayName": "d", "status": "open",
            "statusDescription": "s", "pickupAt": "2025-03-05T16:02:11Z", "pickupWindowDuration": "P0Y0M0DT0H30M0S",
            "pickedUpAt": "2025-03-05T16:02:11Z", "address": [:],
            "location": ["latitude": -90, "longitude": 180, "altitude": -3],
            "barcode": ["format": "aztec", "message": "m", "messageEncoding": "utf-8"], "notes": "n",
        ]
    }

    /// The two variants, which `SchemaAgreementTests` has the JSON Schemas judge.
    var orders: [JSON] { [self.order(self.shipping), self.order(self.pickup)] }

    @Test func everyMemberOfTheTablesIsKnown() {
        for order in self.orders {
            let violations = OrderValidator.violations(
                in: order, allowUnknownMembers: false, nowEpochSeconds: nil, files: .names)
            #expect(violations == [])
        }
    }

    /// A member that is only in `OrderSchema` is noticed here, and in this suite's orders by the JSON Schemas.
    @Test func theOrdersHaveEveryMemberOfTheSchema() {
        var (known, present): (Set<String>, Set<String>) = ([], [])
        func visit(_ value: JSON, _ shape: Shape) {
            switch shape {
            case .object(let schema):
                for member in schema.members {
                    let name = "\(schema.title): \(member.name)"
                    known.insert(name)
                    guard let value = value.object?[member.name] else { continue }
                    present.insert(name)
                    visit(value, member.shape)
                }
            case .array(of: let element): for value in value.array ?? [] { visit(value, element) }
            case .fulfillment:
                let isPickup = value.object?["fulfillmentType"] == "pickup"
                visit(value, .object(isPickup ? OrderSchema.pickup : OrderSchema.shipping))
            case .amount: visit(value, .object(OrderSchema.currencyAmount))
            case .text, .choice, .number, .wholeNumber, .boolean: break
            }
        }
        for order in self.orders { visit(order, .object(OrderSchema.order)) }
        #expect(known.subtracting(present).sorted() == [], "add them to order(_:), shipping or pickup")
        #expect(known.count > 100)
    }

    /// Removed one by one, exactly these members are reported. Source: Wallet Orders §3.1 to §3.16, column R/O
    @Test func exactlyTheRequiredMembersAreRequired() {
        let required: Set<String> = [
            "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "createdAt", "updatedAt", "status",
            "merchant", "orderManagementURL", "authenticationToken", "merchant.merchantIdentifier",
            "merchant.displayName", "merchant.url", "barcode.format", "barcode.message", "barcode.messageEncoding",
            "associatedApplications.storeIdentifier", "lineItems.title", "lineItems.quantity",
            "lineItems.price.amount", "lineItems.price.currency", "payment.total", "payment.status",
            "payment.total.amount", "payment.total.currency", "payment.summaryItems.label",
            "payment.summaryItems.value", "payment.summaryItems.value.amount", "payment.summaryItems.value.currency",
            "payment.transactions.amount", "payment.transactions.amount.amount",
            "payment.transactions.amount.currency", "payment.transactions.createdAt",
            "payment.transactions.paymentMethod", "payment.transactions.paymentMethod.displayName",
            "payment.transactions.status", "payment.transactions.transactionType", "returns.returnIdentifier",
            "returns.status", "returnInfo.returnPolicyURL", "orderProvider.displayName", "orderProvider.url",
            "orderProvider.trackingLogoNameLightColorScheme", "orderProvider.trackingLogoNameDarkColorScheme",
            "fulfillments.fulfillmentType", "fulfillments.fulfillmentIdentifier", "fulfillments.status",
        ]
        let ofShipping: Set<String> = ["fulfillments.estimatedDeliveryAt"]
        let ofPickup: Set<String> = [
            "fulfillments.displayName", "fulfillments.pickupAt", "fulfillments.location.latitude",
            "fulfillments.location.longitude", "fulfillments.barcode.format", "fulfillments.barcode.message",
            "fulfillments.barcode.messageEncoding",
        ]
        for (fulfillment, own) in [(self.shipping, ofShipping), (self.pickup, ofPickup)] {
            let order = self.order(fulfillment)
            var found: Set<String> = []
            for path in order.paths where !self.isValid(order.setting(nil, path)) {
                found.insert(path.split(separator: ".").filter { Int($0) == nil }.joined(separator: "."))
            }
            let items = ["fulfillments", "returns"].flatMap { place in
                ["title", "quantity", "price.amount", "price.currency"].map { "\(place).lineItems.\($0)" }
            }
            #expect(found == required.union(own).union(items), "\(found.symmetricDifference(required.union(own)))")
        }
    }

    /// Source: Wallet Orders §3.17
    private static let choices: [(path: String, values: String)] = [
        ("orderType", "ecommerce"), ("status", "open completed cancelled"),
        ("changeNotifications", "enabled disabledIfAppInstalled"),
        ("payment.status", "pending authorized paid refunded declined voided"),
        ("payment.transactions.0.status", "pending approved completed cancelled failed"),
        ("payment.transactions.0.transactionType", "purchase refund"),
        ("returns.0.status", "open onTheWay processing issue completed cancelled"),
        ("barcode.format", "qr pdf417 aztec code128"), ("fulfillments.0.shippingType", "shipping delivery"),
        (
            "fulfillments.0.status",
            "open processing onTheWay outForDelivery delivered shipped issue cancelled"
        ),
        ("pickup:fulfillments.0.status", "open processing readyForPickup pickedUp issue cancelled"),
        ("pickup:fulfillments.0.barcode.format", "qr pdf417 aztec code128"),
    ]

    @Test func enumeratedMembersAcceptOnlyTheListedValues() {
        let words = Set(Self.choices.flatMap { $0.values.split(separator: " ").map(String.init) })
        let others = ["canceled", "", "unknown", "in_progress"]
        for (path, values) in Self.choices {
            let allowed = Set(values.split(separator: " ").map(String.init))
            let isPickup = path.hasPrefix("pickup:")
            let order = self.order(isPickup ? self.pickup : self.shipping)
            let place = isPickup ? String(path.dropFirst(7)) : path
            for word in words.union(others).union(words.map(\.localizedUppercase)) {
                #expect(self.isValid(order.setting(.string(word), place)) == allowed.contains(word), "\(path) \(word)")
            }
        }
    }

    /// Values at the limits of each format. Source: Wallet Orders §3 (conventions), §3.1, §3.3 to §3.5, §3.14
    @Test func eachMemberAcceptsOnlyItsFormat() {
        let order = self.order(self.shipping)
        let cases: [(String, [JSON], [JSON])] = [
            ("authenticationToken", ["0123456789abcdef"], ["0123456789abcde", "", 5]),
            ("webServiceURL", ["https://a.example"], ["http://a.example", "HTTPS://a.example", "https://", "a"]),
            ("schemaVersion", [1, 2], [0, 3, "1", true]),
            ("updatedAt", ["2025-03-05T16:02:12.250-05:30"], ["2025-03-05T16:02:12", "2025-03-05", 1_741_190_531]),
            (
                "fulfillments.0.estimatedDeliveryWindowDuration", ["PT2H", "P1D", "P0Y0M0DT0H30M0S", "PT0.5S"],
                ["2H", "P", "PT", "PT2", 7200, "pt2h", "-PT2H"]
            ),
            ("merchant.address.countryCode", ["DE", "GB"], ["D", "DEU", "de", "", "ÄÖ"]),
            ("lineItems.0.price.currency", ["EUR"], ["EU", "EURO", "eur", "", "€€€"]),
            (
                "lineItems.0.price.amount", ["-19.99", "0", "28.800"],
                ["19,99", ".5", "5.", "1e3", "1 000", "+1", "", 28]
            ),
            ("lineItems.0.quantity", [0, 3], ["1", -1]),
            ("returns.0.returnLabel", ["a.PDF", "b.jpeg", "c.JPG", "d.png"], ["a", "a.gif", "pdf", "../a.pdf"]),
            ("payment.transactions.0.receipt", ["r.pdf", "r.png"], ["/r.pdf", "a/../r.pdf", "a\\r.pdf", ""]),
            ("merchant.logo", ["logo.png", "logo", "a/logo.jpg"], ["logo@2x.png", "logo@3x", "https://a/b.png", ""]),
            ("orderIdentifier", ["A-1._~"], ["a/b", "a b", "ä", ""]),
            ("associatedApplications.0.storeIdentifier", [1_234_567_890], [0, -1, "1"]),
            ("orderManagementURL", ["app://x"], ["shop", "/orders", "https://a b"]),
        ]
        for (path, good, bad) in cases {
            for value in good { #expect(self.isValid(order.setting(value, path)), "\(path) \(value.text)") }
            for value in bad { #expect(!self.isValid(order.setting(value, path)), "\(path) \(value.text)") }
        }
    }

    /// Source: Wallet Orders §3.1 (in version 2 the deprecated status may be omitted)
    @Test func thePaymentsStatusIsNeededInVersion1Only() {
        let order = self.order(self.shipping)
        #expect(!self.isValid(order.setting(nil, "payment.status")))
        #expect(self.isValid(order.setting(nil, "payment.status").setting(2, "schemaVersion")))
        #expect(self.isValid(order.setting(nil, "payment")))
        #expect(self.isValid(order.setting(nil, "webServiceURL").setting(nil, "authenticationToken")))
        #expect(self.isValid(order.setting(nil, "webServiceURL")))
    }
}

@Suite struct OrderDatesTests {
    /// Source: Wallet Orders §3 (conventions, emit no fractions)
    @Test func orderJSONHasNoFractions() throws {
        var state = try Examples.state(1)
        let day: JSON = "2025-03-05T16:02:11.987654Z"
        var document = JSON.object(state.document.members)
        document = document.setting(day, "createdAt").setting(["returnDeadline": day], "returnInfo")
            .setting([["createdAt": "2025-03-05T16:02:11.5+05:30"], ["createdAt": 5], 7], "payment.transactions")
            .setting([["dropOffBy": day, "initiatedAt": day, "returnedAt": day, "notes": day]], "returns")
            .setting(
                [
                    [
                        "deliveredAt": day, "estimatedDeliveryAt": day, "pickedUpAt": day, "pickupAt": day,
                        "shippedAt": day, "carrier": "a.b",
                    ],
                    ["shippedAt": "2025-03-05T16:02:11Z"], ["shippedAt": "16.5"],
                ], "fulfillments")
        state.document = OrderDocument(members: try #require(document.object))
        let order = state.orderJSON(rules: try Examples.rules(try Examples.order(1)))
        let whole: JSON = "2025-03-05T16:02:11Z"
        #expect(order[path: "createdAt"] == whole)
        #expect(order[path: "returnInfo.returnDeadline"] == whole)
        #expect(
            order[path: "payment.transactions"]?.text
                == #"[{"createdAt":"2025-03-05T16:02:11+05:30"},{"createdAt":5},7]"#)
        #expect(
            order[path: "returns.0"]
                == ["dropOffBy": whole, "initiatedAt": whole, "returnedAt": whole, "notes": day])
        for name in ["deliveredAt", "estimatedDeliveryAt", "pickedUpAt", "pickupAt", "shippedAt"] {
            #expect(order[path: "fulfillments.0.\(name)"] == whole)
        }
        #expect(order[path: "fulfillments.0.carrier"] == "a.b")
        #expect(order[path: "fulfillments.1.shippedAt"] == whole)
        #expect(order[path: "fulfillments.2.shippedAt"] == "16.5")
    }

    /// A member that is added to the schema needs no second list.
    @Test func everyMomentOfASchemaLosesItsFraction() throws {
        let leaf = ObjectSchema("a leaf", .required("at", .text(.dateTime)), .optional("name", .text(.filled)))
        let schema = ObjectSchema(
            "a tree", .optional("leaf", .object(leaf)), .optional("leaves", .array(of: .object(leaf))),
            .optional("name", .text(.filled)), .optional("at", .text(.dateTime)))
        let (day, whole): (JSON, JSON) = ("2025-03-05T16:02:11.5Z", "2025-03-05T16:02:11Z")
        func tree(_ day: JSON) -> JSON {
            let leaf: JSON = ["at": day, "name": "2025-03-05T16:02:11.5Z"]
            return ["at": day, "leaf": leaf, "leaves": [leaf, 7, leaf], "name": "2025-03-05T16:02:11.5Z"]
        }
        var object = try #require(tree(day).object)
        let members = TextMembers(of: [schema]) { $0 == .dateTime }
        let changed = object.dropFractions(of: members)
        #expect(changed)
        #expect(JSON.object(object) == tree(whole))
        let changedAgain = object.dropFractions(of: members)
        #expect(!changedAgain)
    }

    @Test(arguments: 1...5)
    func anOrderWithoutFractionsStaysAsItIs(_ number: Int) throws {
        let order = try #require(try Examples.order(number).object)
        #expect(order.inWholeSeconds == order)
    }
}
