import TestKit
import Testing

@testable import Model

@Suite struct OrderValidatorTests {
    private func violations(_ order: JSON, files: OrderValidator.Files = .names, unknown: Bool = false) -> [Violation] {
        OrderValidator.violations(in: order, allowUnknownMembers: unknown, nowEpochSeconds: nil, files: files)
    }

    /// Returns the first violation of an example with one value replaced, as a sentence.
    private func first(_ number: Int, _ path: String, _ value: JSON?) throws -> String {
        self.violations(try Examples.order(number).setting(value, path)).first?.description ?? "none"
    }

    @Test(arguments: 1...5)
    func theExamplesAreValid(_ number: Int) throws { #expect(self.violations(try Examples.order(number)) == []) }

    @Test func aViolationNamesThePathAndWhatIsExpected() throws {
        #expect(
            try self.first(1, "payment.total.amount", .number(JSONNumber(checked: "149.4")))
                == "$.payment.total.amount must be a decimal number in a string like \"19.99\", it is a number")
        #expect(
            try self.first(1, "status", "in_progress")
                == "$.status must be open, completed or cancelled, it is \"in_progress\"")
        #expect(
            try self.first(1, "lineItems.1.quantity", "2") == "$.lineItems[1].quantity must be a number, it is a string"
        )
        #expect(
            try self.first(1, "OrderNumber", "1") == "$.OrderNumber is not a member of an order, is orderNumber meant?")
        #expect(try self.first(1, "no plain name", 1).hasPrefix("$[\"no plain name\"] is not a member"))
        #expect(try self.first(1, "merchant.url", nil) == "$.merchant.url is missing")
        #expect(
            try self.first(2, "fulfillments.0.pickupAt", nil)
                == "$.fulfillments[0].pickupAt is missing, pickupWindowDuration needs it")
        #expect(try self.first(1, "payment.status", nil) == "$.payment.status is missing, schemaVersion 1 needs it")
        #expect(
            try self.first(1, "customer.emailAddress", "noor at home")
                == "$.customer.emailAddress must be an e-mail address")
        #expect(
            try self.first(2, "fulfillments.0.location.latitude", 91)
                == "$.fulfillments[0].location.latitude must be a number from -90 to 90, it is 91")
        #expect(self.violations([]).first?.description == "$ must be an object, it is an array")
    }

    @Test func violationsAreReportedUpToTheLimit() throws {
        let order = try Examples.order(1).setting("x", "status").setting(nil, "merchant.url").setting(1, "orderNumber")
        #expect(Set(self.violations(order).map(\.path)) == ["$.status", "$.merchant.url", "$.orderNumber"])
        let many = order.setting(.array(Array(repeating: 1, count: 1000)), "lineItems")
        #expect(self.violations(many).count == OrderValidator.limit)
    }

    @Test func summaryItemsMakeUpTheTotalExactly() throws {
        func sum(_ amounts: [String], _ total: String) -> [Violation] {
            let items = amounts.map {
                JSON.object(["label": "x", "value": ["amount": .string($0), "currency": "USD"]])
            }
            let order = try? Examples.order(1).setting(.array(items), "payment.summaryItems")
                .setting(.string(total), "payment.total.amount")
            return order.map { self.violations($0) } ?? []
        }
        let long = String(repeating: "9", count: 500)
        for (amounts, total) in [
            (["0.1", "0.2"], "0.3"), (["0.10", "0.2"], "0.30"), (["-10.00", "4.5", "5.5"], "0"),
            (["1", "-3"], "-2.00"),
            (["99.99", "0.01"], "100"), (["0.999", "0.0011"], "1.0001"),
            ([long, "1"], "1" + String(repeating: "0", count: 500)),
            (["-0.5", "0.25"], "-0.25"), (["007"], "7"), (["-0"], "0"), ([], "5"),
        ] { #expect(sum(amounts, total) == [], "\(amounts.map { clipped($0) }) \(clipped(total))") }
        for (amounts, total, told) in [
            (["0.1", "0.2"], "0.31", "0.3"), (["99.99", "0.01"], "100.01", "100.00"), (["1", "-3"], "2", "-2"),
            (["-0.5", "0.25"], "0.25", "-0.25"), (["5", "-5.0"], "1", "0"),
        ] {
            let violation = sum(amounts, total).first
            #expect(violation?.path == "$.payment.total.amount")
            #expect(violation?.message == "must be what the summaryItems add up to: \(told), it is \"\(total)\"")
        }
    }

    @Test func rulesBetweenMembersAreChecked() throws {
        #expect(try self.first(1, "updatedAt", "2025-03-03T09:14:26Z") == "$.updatedAt must not be before createdAt")
        #expect(try self.first(1, "createdAt", "2025-03-05T16:02:11.5Z") == "$.updatedAt must not be before createdAt")
        #expect(
            try self.first(1, "fulfillments.1.fulfillmentIdentifier", "ship-1")
                == "$.fulfillments[1].fulfillmentIdentifier is \"ship-1\", which another one has already")
        #expect(
            try self.first(1, "lineItems.0.price.currency", "EUR")
                == "$.lineItems[0].price.currency is \"EUR\", the order's other amounts are in USD")
        #expect(
            try self.first(1, "payment.total.currency", "EUR")
                == "$.payment.total.currency is \"EUR\", the order's other amounts are in USD")
        let returned = try Examples.order(3).setting("2025-01-02T00:00:00Z", "returns.0.initiatedAt")
        #expect(
            self.violations(returned.setting("2025-01-01T23:59:59Z", "returns.0.dropOffBy")).map(\.description)
                == ["$.returns[0].dropOffBy must not be before initiatedAt"])
        let twice = try Examples.order(3).object?["returns"]?.array?.first
        let both = try Examples.order(3).setting([try #require(twice), try #require(twice)], "returns")
        #expect(self.violations(both).map(\.path) == ["$.returns[1].returnIdentifier"])
    }

    @Test func aDateMustExistInTheCalendar() throws {
        #expect(try self.first(1, "createdAt", "2025-02-30T00:00:00Z").hasPrefix("$.createdAt must be a date-time"))
        #expect(try self.first(1, "fulfillments.0.shippedAt", "2024-02-29T00:00:00Z") == "none")
    }

    @Test func aFutureCreationIsRefusedBeyondADay() throws {
        let order = try Examples.order(1)
        let created = try #require(RFC3339.parse("2025-03-03T09:14:27Z"))
        for (now, count) in [(created - 86_400, 0), (created - 86_401, 1), (created, 0)] {
            let found = OrderValidator.violations(in: order, allowUnknownMembers: false, nowEpochSeconds: now)
            #expect(found.count == count)
        }
    }

    @Test func anOverflowingNumberIsRefused() throws {
        for text in ["1e999", "-1e999", "1e-1"] {
            let order = try Examples.order(1).setting(.number(JSONNumber(checked: text)), "lineItems.0.quantity")
            #expect(self.violations(order).isEmpty == (text == "1e-1"))
        }
        let altitude = try Examples.order(2).setting(
            .number(JSONNumber(checked: "-1e999")), "fulfillments.0.location.altitude")
        #expect(self.violations(altitude).count == 1)
    }

    @Test func unknownMembersMayPassUpToADepthLimit() throws {
        func nested(_ levels: Int) -> JSON { (0..<levels).reduce(1) { value, _ in [value] } }
        #expect(self.violations(try Examples.order(1).setting(nested(24), "x"), unknown: true) == [])
        #expect(self.violations(try Examples.order(1).setting(nested(25), "x"), unknown: true).map(\.path) == ["$.x"])
    }

    @Test func anImageIsAFileNameOrInADocumentAnHTTPSURL() throws {
        func verdict(_ image: JSON, _ files: OrderValidator.Files) throws -> Bool {
            self.violations(try Examples.order(1).setting(image, "lineItems.0.image"), files: files).isEmpty
        }
        for name in ["lamp.png", "a/b.jpg", "a..b.png", "lamp@2x", "lamp@4x.png", "@2x.png", "a@2x.p1", "a:b.png"] {
            let isScaled = name == "lamp@2x" || name == "@2x.png"
            #expect(try verdict(.string(name), .names) == !isScaled, "\(name)")
            #expect(try verdict(.string(name), .namesAndURLs) == !isScaled, "\(name)")
        }
        for url in ["https://cdn.example/x.png", "https://cdn.example/x@2x.png?a=%20"] {
            #expect(try !verdict(.string(url), .names))
            #expect(try verdict(.string(url), .namesAndURLs))
        }
        for other: JSON in [
            "http://cdn.example/x.png", "https:///x.png", "https://a/%zz", "data://x", "/x.png", "../x.png", "a/../b",
            "a\\b", "", 1, "https://cdn.example/a b.png",
        ] {
            #expect(try !verdict(other, .namesAndURLs), "\(other)")
        }
    }

    @Test(arguments: [
        ("PT2H", true), ("P1D", true), ("P1Y2M3W4DT5H6M7.5S", true), ("P0Y0M0DT0H30M0S", true), ("P", false),
        ("PT", false), ("P1DT", false), ("P1H", false), ("PT1D", false), ("PT1.5H", false), ("P1.5D", false),
        ("PT1M1H", false), ("P1D1D", false), ("1D", false), ("P-1D", false), ("PT1S ", false), ("PT.5S", false),
        ("PT5.S", false), ("P1", false), ("", false), ("P1T1H", false),
    ])
    func aDurationFollowsTheSchema(_ text: String, _ isValid: Bool) { #expect(isDuration(text.utf8.span) == isValid) }

    @Test(arguments: [
        ("https://a.example/", true), ("http://a.example:80/?q#f", true), ("HTTPS://A", true),
        ("mailto:a@b.example", true),
        ("fernandpine://orders/1", true), ("https://[::1]/", true), ("https://a.example/%C3%A9", true),
        ("https:", false),
        ("https://", false), ("https:///x", false), ("https:/a", false), ("https:a", false), ("://a", false),
        ("a", false),
        ("1a:b", false), ("https://a.example/é", false), ("https://a.example/ x", false), ("https://a/%2", false),
        ("https://a/\\", false), ("https://a/|", false), ("https://?q", false), ("", false), ("x:", false),
    ])
    func aURLIsAbsolute(_ text: String, _ isValid: Bool) { #expect(isURL(text.utf8.span) == isValid) }

    @Test(arguments: [
        ("a@b", true), ("noor@mail.example.com", true), ("é@b.example", true), ("a@b@c", false), ("@b", false),
        ("a@", false), ("a b@c", false), ("a", false), ("", false), ("a@b\n", false),
    ])
    func anEmailAddressNeedsBothPartsAndOneAtSign(_ text: String, _ isValid: Bool) {
        #expect(isEmailAddress(text.utf8.span) == isValid)
    }
}
