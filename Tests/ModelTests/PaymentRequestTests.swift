import Foundation
import TestKit
import Testing

@testable import Model

/// Payment requests in one table: our validator, our schema, and a third party's schema of Apple's format.
@Suite struct PaymentRequestTests {
    static let minimal: JSON = [
        "countryCode": "GB", "currencyCode": "GBP", "supportedNetworks": ["visa"],
        "merchantCapabilities": ["supports3DS"], "total": ["label": "Shop", "amount": "19.90"],
    ]
    static let item: JSON = ["label": "Plan", "amount": "5.00"]
    static let recurring: JSON = [
        "paymentDescription": "Plan", "managementURL": "https://shop.example.com/plan",
        "regularBilling": [
            "label": "Plan", "amount": "5.00", "paymentTiming": "recurring", "recurringPaymentIntervalUnit": "month",
            "recurringPaymentIntervalCount": 1, "recurringPaymentStartDate": "2026-01-02T03:04:05Z",
        ],
    ]
    static let reload: JSON = [
        "paymentDescription": "Card", "managementURL": "https://shop.example.com/card",
        "automaticReloadBilling": [
            "label": "Card", "amount": "5.00", "paymentTiming": "automaticReload",
            "automaticReloadPaymentThresholdAmount": "1.00",
        ],
    ]

    static let deferred: JSON = [
        "paymentDescription": "Room", "managementURL": "https://x.example/",
        "deferredBilling": [
            "label": "Room", "amount": "9.00", "paymentTiming": "deferred",
            "deferredPaymentDate": "2026-05-01T00:00:00Z",
        ],
    ]

    /// A deferred payment request with a date of free cancellation and its zone.
    static func cancellable(_ date: JSON?, _ zone: JSON?) -> JSON {
        self.deferred.setting(date, "freeCancellationDate").setting(zone, "freeCancellationDateTimeZone")
    }

    /// A request: the value set in the minimal request, our verdict, and the reference's verdict if it differs.
    struct Row {
        let path: String
        let value: JSON?
        let isValid: Bool
        /// The reference's verdict; nil if it equals ours.
        var reference: Bool?
    }

    static func row(_ path: String, _ value: JSON?, _ isValid: Bool, reference: Bool? = nil) -> Row {
        Row(path: path, value: value, isValid: isValid, reference: reference)
    }

    static let rows = merchantRows + totalRows + sheetRows + billingRows

    static let merchantRows: [Row] = [
        row("countryCode", "GB", true), row("countryCode", "gb", false), row("countryCode", nil, false),
        row("countryCode", "ZZ", false, reference: true), row("currencyCode", "GBPX", false),
        row("currencyCode", "QQQ", false, reference: true), row("currencyCode", "JPY", true),
        row("supportedNetworks", [], false), row("supportedNetworks", nil, false),
        row("supportedNetworks", ["Visa"], false), row("supportedNetworks", ["visa", "visa"], false, reference: true),
        row("supportedNetworks", ["maestro", "elo", "mir", "dankort", "vPay"], true, reference: false),
        row("supportedNetworks", ["iD", "quicPay", "girocard", "mada"], true),
        row("supportedNetworks", ["visa", "bankAxept", "networkOf2031"], true, reference: false),
        row("supportedNetworks", ["pagoBancomat", "postFinance", "napas", "maal"], true, reference: false),
        row("supportedNetworks", ["master card"], false), row("supportedNetworks", ["v"], false),
        row("supportedNetworks", ["2visa"], false), row("supportedNetworks", [1], false),
        row("merchantCapabilities", [], false), row("merchantCapabilities", ["supports4DS"], false),
        row("merchantCapabilities", ["supportsCredit"], false, reference: true),
        row("merchantCapabilities", ["supportsEMV", "supports3DS"], true),
        row("merchantCapabilities", ["supports3DS", "supportsInstantFundsOut"], true, reference: false),
        row("merchantCategoryCode", "5999", true), row("merchantCategoryCode", "0742", true),
        row("merchantCategoryCode", "742", false, reference: true),
        row("merchantCategoryCode", "59999", false, reference: true),
        row("merchantCategoryCode", "५९९९", false, reference: true),
        row("merchantCategoryCode", 5999, false, reference: true), row("features", ["paymentRequestDeferred"], true),
        row("features", [""], false, reference: true), row("features", "x", false, reference: true),
    ]

    static let totalRows: [Row] = [
        row("total", nil, false), row("total.amount", nil, false), row("total.amount", "19.9", true, reference: false),
        row("total.amount", "19", true, reference: false), row("total.amount", "1.2345", true, reference: false),
        row("total.amount", "1.23456", false), row("total.amount", "0.00", true), row("total.amount", 19, false),
        row("total.amount", "-1.00", false, reference: true), row("total.amount", "1,00", false),
        row("total.amount", "100000000.00", true), row("total.amount", "100000000.01", false, reference: true),
        row("total.amount", "1e3", false), row("total.amount", "", false), row("total.amount", ".50", false),
        row("total.label", "", false, reference: true), row("total.label", nil, false),
        row("total.label", .string(String(repeating: "x", count: 200)), true),
        row("total.type", "pending", true), row("total.type", "open", false),
        row("lineItems", [["label": "Tax", "amount": "-1.00"]], true),
        row("lineItems", [["label": "Tax", "type": "pending"]], true, reference: false),
        row("lineItems", [["label": "Tax"]], false), row("lineItems", [["amount": "1.00"]], false),
    ]

    static let sheetRows: [Row] = [
        row("requiredShippingContactFields", ["email", "phoneticName"], true),
        row("requiredShippingContactFields", ["mail"], false),
        row("requiredBillingContactFields", ["email", "email"], false, reference: true),
        row("shippingMethods", [["label": "Post", "detail": "", "amount": "1.00", "identifier": "p"]], true),
        row(
            "shippingMethods", [["label": "Post", "detail": "", "amount": "-1.00", "identifier": "p"]], false,
            reference: true),
        row("shippingMethods", [["label": "Post", "amount": "1.00", "identifier": "p"]], false),
        row(
            "shippingMethods",
            [
                [
                    "label": "Post", "detail": "", "amount": "1.00", "identifier": "p",
                    "dateComponentsRange": ["startDateComponents": ["days": 1], "endDateComponents": ["days": 2]],
                ]
            ], true),
        row(
            "shippingMethods",
            [
                [
                    "label": "Post", "detail": "", "amount": "1.00", "identifier": "p",
                    "dateComponentsRange": ["startDateComponents": ["day": 1], "endDateComponents": ["days": 2]],
                ]
            ], false, reference: true),
        row("shippingType", "storePickup", true), row("shippingType", "drone", false),
        row("shippingContactEditingMode", "storePickup", true),
        row("shippingContactEditingMode", "available", true, reference: false),
        row("applicationData", "YQ==", true), row("applicationData", "a?", false, reference: true),
        row("supportedCountries", ["GB", "IE"], true), row("supportedCountries", ["gb"], false),
        row("billingContact", ["givenName": "A"], true), row("billingContact", ["name": "A"], false, reference: true),
        row("supportsCouponCode", true, true), row("supportsCouponCode", "yes", false, reference: true),
        row("couponCode", "X", true), row("unheardOf", 1, false, reference: true),
    ]

    static let billingRows: [Row] = [
        row("recurringPaymentRequest", recurring, true), row("recurringPaymentRequest", [:], false),
        row("recurringPaymentRequest", recurring.setting(nil, "managementURL"), false),
        row("recurringPaymentRequest", recurring.setting(item, "regularBilling"), false, reference: true),
        row("recurringPaymentRequest", recurring.setting(item, "trialBilling"), true),
        row("recurringPaymentRequest", recurring.setting("week", "regularBilling.recurringPaymentIntervalUnit"), false),
        row("recurringPaymentRequest", recurring.setting(0, "regularBilling.recurringPaymentIntervalCount"), false),
        row("automaticReloadPaymentRequest", reload, true),
        row(
            "automaticReloadPaymentRequest",
            reload.setting(nil, "automaticReloadBilling.automaticReloadPaymentThresholdAmount"), false, reference: true),
        row("deferredPaymentRequest", deferred, true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", "Europe/Berlin"), true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", "US/Pacific"), true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", nil), false, reference: true),
        row("deferredPaymentRequest", cancellable(nil, "Europe/Berlin"), false, reference: true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", "Mars/Olympus"), false, reference: true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", "../etc/passwd"), false, reference: true),
        row("deferredPaymentRequest", cancellable("2026-05-01T00:00:00Z", ""), false, reference: true),
        row("disbursementRequest", [:], true),
        row("disbursementRequest", ["requiredRecipientContactFields": ["email", "name"]], true),
        row("disbursementRequest", ["requiredRecipientContactFields": ["mail"]], false, reference: true),
        row("disbursementRequest", ["requiredRecipientContactFields": ["name", "name"]], false, reference: true),
        row("lineItems", [["label": "Out", "amount": "9.00", "disbursementLineItemType": "disbursement"]], true),
        row(
            "lineItems", [["label": "Out", "amount": "9.00", "disbursementLineItemType": "fee"]], false, reference: true
        ),
        row("deferredPaymentRequest", [:], false, reference: true),
        row(
            "multiTokenContexts",
            [["merchantIdentifier": "m", "externalIdentifier": "e", "merchantName": "n", "amount": "1.00"]], true,
            reference: false),
        row("multiTokenContexts", [["merchantIdentifier": "m"]], false),
    ]

    static func instance(_ row: Row) -> JSON { self.minimal.setting(row.value, row.path) }

    @Test func theSchemaAndTheValidatorAgreeOnEveryCase() throws {
        let cases = Self.rows.map { row in
            SchemaCase(
                schema: "payment-request", name: "\(row.path) = \(row.value?.text ?? "none")",
                instance: Self.instance(row), isValid: row.isValid)
        }
        let both = Self.minimal.setting(Self.recurring, "recurringPaymentRequest")
            .setting(Self.reload, "automaticReloadPaymentRequest")
        let all =
            cases + [
                SchemaCase(schema: "payment-request", name: "minimal", instance: Self.minimal, isValid: true),
                SchemaCase(schema: "payment-request", name: "two kinds", instance: both, isValid: false),
                SchemaCase(schema: "payment-request", name: "an array", instance: [], isValid: false),
            ]
        let verdicts = try SchemaCase.verdicts(all)
        try #require(verdicts.count == all.count)
        for (item, verdict) in zip(all, verdicts) {
            #expect(verdict == item.isValid, "the schema, \(item.name)")
            let violations = PaymentRequestValidator.violations(in: item.instance)
            #expect(violations.isEmpty == item.isValid, "the validator, \(item.name): \(violations)")
        }
    }

    static let reference = ProcessInfo.processInfo.environment["WAYBILL_TEST_PAYMENT_REQUEST_REFERENCE"]

    /// The published schema is not part of the project, so the table is compared with it only where it is available.
    @Test(.enabled(if: Self.reference != nil, "WAYBILL_TEST_PAYMENT_REQUEST_REFERENCE names no file"))
    func theReferenceSchemaAgreesExceptForKnownDifferences() throws {
        let path = try #require(Self.reference)
        let script = """
            import json, sys
            from jsonschema import Draft202012Validator, FormatChecker
            validator = Draft202012Validator(json.load(open(sys.argv[1])), format_checker=FormatChecker())
            for instance in json.load(sys.stdin): print("valid" if validator.is_valid(instance) else "refused")
            """
        let directory = try TemporaryDirectory("reference")
        let corpus = JSON.array(Self.rows.map(Self.instance))
        let input = try directory.write("corpus.json", corpus.serialized)
        let program = try directory.write("check.py", script)
        let output = try Program.run("sh", ["-c", "exec python3 \"$1\" \"$2\" <\"$3\"", "sh", program, path, input])
        let verdicts = output.split(separator: "\n").map { $0 == "valid" }
        try #require(verdicts.count == Self.rows.count)
        for (row, verdict) in zip(Self.rows, verdicts) {
            #expect(verdict == row.reference ?? row.isValid, "\(row.path) = \(row.value?.text ?? "none")")
        }
    }

    @Test func anUnknownNetworkIsAMatterOfAdvice() throws {
        let request = Self.minimal.setting(
            ["visa", "mastercard", "bankAxept", "networkOf2031", "Visa"], "supportedNetworks")
        let advice = PaymentRequestValidator.unknownNetworks(in: try #require(request.object))
        #expect(advice.map(\.path) == ["$.supportedNetworks[1]", "$.supportedNetworks[3]"])
        #expect(advice[0].message.contains("\"masterCard\""))
        #expect(PaymentRequestValidator.violations(in: request).map(\.path) == ["$.supportedNetworks[4]"])
    }

    /// A zone that a machine's own database has in its main list is known, however old or new that database is.
    @Test(arguments: ["UTC", "Etc/GMT+12", "Asia/Kathmandu", "America/Argentina/Ushuaia", "Europe/Kyiv", "EST5EDT"])
    func aTimeZoneOfTheDatabaseIsKnown(_ zone: String) {
        #expect(TimeZones.names.contains(zone))
        #expect(!TimeZones.names.contains(zone + "x"))
    }

    @Test func everyKnownTimeZoneIsOneOfTheSystems() throws {
        let folder = "/usr/share/zoneinfo/"
        // Without the older names, a system cannot be compared with.
        try #require(TimeZones.names.count == 597)
        guard FileManager.default.fileExists(atPath: folder + "US/Pacific") else { return }
        let missing = TimeZones.names.filter { !FileManager.default.fileExists(atPath: folder + $0) }
        #expect(missing.isSubset(of: ["America/Coyhaique"]), "newer than 2024")
    }

    @Test func unknownAndDeprecatedMembersAreAMatterOfAdvice() throws {
        let request = Self.minimal.setting(1, "futureMember").setting("Lamp", "total.colour")
            .setting([["label": "Lamp", "amount": "1.00", "Type": "final"]], "lineItems")
            .setting("available", "applePayLaterAvailability")
        #expect(PaymentRequestValidator.violations(in: request, allowUnknownMembers: true).isEmpty)
        let advice = PaymentRequestValidator.questionableMembers(in: try #require(request.object))
        #expect(
            advice.map(\.description) == [
                "$.futureMember is not a member of a payment request",
                "$.lineItems[0].Type is not a member of a line item, is type meant?",
                "$.total.colour is not a member of a total", "$.applePayLaterAvailability is deprecated: leave it out",
            ])
        #expect(PaymentRequestValidator.questionableMembers(in: try #require(Self.minimal.object)).isEmpty)
        let many = try #require(
            (0..<100).reduce(Self.minimal) { $0.setting(1, "member\($1)") }.object)
        #expect(PaymentRequestValidator.questionableMembers(in: many).count == 20)
    }

    @Test func aSentenceForALogHasNoValue() {
        func sentences(_ json: JSON) -> [String] { PaymentRequestValidator.violations(in: json).map(\.withoutValue) }
        #expect(
            sentences(Self.minimal.setting("jane@example.com", "shippingType")) == [
                "$.shippingType must be shipping, delivery, storePickup or servicePickup"
            ])
        #expect(sentences(Self.minimal.setting(1, "couponCode")) == ["$.couponCode must be a string, it is a number"])
        #expect(sentences(Self.minimal.setting(nil, "countryCode")) == ["$.countryCode is missing"])
    }

    @Test func aViolationTellsWhetherTheSchemaHasItsRule() {
        func beyond(_ json: JSON) -> [Bool] { PaymentRequestValidator.violations(in: json).map(\.isBeyondSchema) }
        #expect(beyond(Self.minimal.setting("free", "total.amount")) == [false])
        #expect(beyond(Self.minimal.setting([], "merchantCapabilities")) == [false])
        let method: JSON = ["label": "Post", "detail": "", "amount": "1.00", "identifier": "p"]
        #expect(beyond(Self.minimal.setting([method, method], "shippingMethods")) == [true])
    }

    @Test func violationsNameTheirPath() {
        func places(_ json: JSON) -> [String] { PaymentRequestValidator.violations(in: json).map(\.path) }
        #expect(places(Self.minimal.setting("free", "total.amount")) == ["$.total.amount"])
        let method: JSON = ["label": "Post", "detail": "", "amount": "1.00", "identifier": "p"]
        #expect(
            places(Self.minimal.setting([method, method], "shippingMethods")) == ["$.shippingMethods[1].identifier"])
        let zero = Self.minimal.setting("0.00", "total.amount")
        #expect(PaymentRequestValidator.violations(in: zero, version: 3).map(\.path) == ["$.total.amount"])
        #expect(PaymentRequestValidator.violations(in: Self.minimal.setting(1, "x"), allowUnknownMembers: true).isEmpty)
        #expect(PaymentRequestValidator.violations(inUpdate: ["newTotal": ["label": "S", "amount": "1"]]).isEmpty)
        #expect(
            PaymentRequestValidator.violations(inUpdate: ["newTotal": ["label": "S"], "newLineItems": [["label": "x"]]])
                .map(\.path) == ["$.newTotal.amount", "$.newLineItems[0].amount"])
    }
}
