import TestKit
import Testing

@testable import Model

@Suite struct SchemaAgreementTests {
    /// All cases, in one run of Python: each schema accepts exactly the values that the Swift code accepts.
    @Test func swiftAndTheSchemasAgree() throws {
        let cases =
            try Self.orders() + Self.brokenOrders() + Self.mutants() + Self.documents() + Self.events() + Self.records()
        let verdicts = try SchemaCase.verdicts(cases)
        try #require(verdicts.count == cases.count)
        // A small corpus, or one of which everything is refused, would agree too easily.
        #expect(verdicts.count { $0 } > 500)
        #expect(verdicts.count { !$0 } > 5000)
        let judge = try SwiftJudge()
        for (item, schemaAccepts) in zip(cases, verdicts) {
            let swiftAccepts = try judge.accepts(item)
            #expect(
                swiftAccepts == schemaAccepts, "\(item.schema): \(item.name): Swift says \(swiftAccepts)")
            if let isValid = item.isValid { #expect(schemaAccepts == isValid, "\(item.schema): \(item.name)") }
        }
    }

    private static func orders() throws -> [SchemaCase] {
        try (1...5).map {
            SchemaCase(schema: "order", name: "example \($0)", instance: try Examples.order($0), isValid: true)
        }
            + OrderSchemaTests().orders.map {
                SchemaCase(schema: "order", name: "every member", instance: $0, isValid: true)
            }
    }

    /// Returns orders with mistakes of producers; each must be refused.
    private static func brokenOrders() throws -> [SchemaCase] {
        let number = JSON.number(JSONNumber(checked: "149.4"))
        let required = [
            "createdAt", "merchant", "orderIdentifier", "orderManagementURL", "orderType", "orderTypeIdentifier",
            "schemaVersion", "status", "updatedAt",
        ]
        let removed: [(Int, String)] =
            required.map { (4, $0) } + [
                (1, "authenticationToken"), (1, "payment.status"), (2, "fulfillments.0.displayName"),
                (2, "fulfillments.0.barcode.messageEncoding"), (2, "fulfillments.0.pickupAt"),
                (3, "returns.0.returnIdentifier"), (3, "returnInfo.returnPolicyURL"),
                (5, "orderProvider.trackingLogoNameDarkColorScheme"),
            ]
        let replaced: [(Int, String, JSON)] = [
            (1, "unheardOf", 1), (1, "authenticationToken", "abc"), (1, "webServiceURL", "http://shop.example/"),
            (1, "status", "in_progress"), (1, "payment.total.amount", number), (1, "payment.total.amount", "149,40"),
            (1, "payment.total.currency", "usd"), (1, "lineItems.0.quantity", "2"),
            (1, "fulfillments.0.status", "pickedUp"), (2, "fulfillments.0.status", "onTheWay"),
            (2, "fulfillments.0.fulfillmentType", "dropoff"), (2, "fulfillments.0.barcode.format", "ean13"),
            (2, "fulfillments.0.location.latitude", 91), (2, "fulfillments.0.pickupWindowDuration", "90min"),
            (2, "fulfillments.0.pickupWindowDuration", "P"), (2, "fulfillments.0.pickupAt", "2025-06-20T10:00:00"),
            (2, "fulfillments.0.address.countryCode", "DEU"), (3, "returns.0.status", "returned"),
            (3, "returns.0.returnLabel", "label.gif"), (3, "payment.transactions.0.receipt", "../receipt.pdf"),
            (3, "payment.transactions.0.status", "paid"), (5, "merchant.logo", "logo@2x.png"), (5, "schemaVersion", 3),
            (5, "schemaVersion", "1"), (5, "merchant.logo", "https://cdn.example/logo.png"),
        ]
        return try removed.map {
            SchemaCase(
                schema: "order", name: "\($0) without \($1)", instance: try Examples.order($0).setting(nil, $1),
                isValid: false)
        }
            + replaced.map {
                SchemaCase(
                    schema: "order", name: "\($0) with \($1) \($2.text)",
                    instance: try Examples.order($0).setting($2, $1), isValid: false)
            }
    }

    /// Returns the examples with each value removed or replaced in turn and each object with an additional member, as
    /// orders and as documents. Both judges must agree on which are valid.
    private static func mutants() throws -> [SchemaCase] {
        var cases: [SchemaCase] = []
        for number in [1, 2, 3, 5] {
            let order = try Examples.order(number)
            for path in order.paths {
                var variants: [JSON?] = [.null, 7, "x", "", true, [], [:]]
                // A list with one element less has sums that the schema cannot check.
                if Int(path.split(separator: ".").last ?? "") == nil { variants.append(nil) }
                if ["receipt", "returnLabel", "image"].contains(where: path.hasSuffix) {
                    variants += [
                        "https://a.example/1?x=y", "http://a.example/1.pdf", "https://a.example/b c.pdf", "a.pdf",
                        "../a.pdf",
                    ]
                }
                if case .object? = order[path: path] { cases.append(contentsOf: self.both(order, "\(path).zzz", 1)) }
                for value in variants { cases.append(contentsOf: self.both(order, path, value)) }
            }
        }
        return cases
    }

    private static func both(_ order: JSON, _ path: String, _ value: JSON?) -> [SchemaCase] {
        let mutant = order.setting(value, path)
        let name = "\(path) = \(value?.text ?? "none")"
        let asOrder = SchemaCase(schema: "order", name: name, instance: mutant, isValid: nil)
        // No schema can check that a document agrees with its key.
        guard !["orderIdentifier", "orderTypeIdentifier"].contains(path) else { return [asOrder] }
        return [asOrder, SchemaCase(schema: "order-document", name: name, instance: self.owned(mutant), isValid: nil)]
    }

    /// Returns the order with the key and web service of example 1, so that it agrees with them.
    private static func owned(_ order: JSON) -> JSON {
        guard let key = try? SchemaCase.key else { return order }
        var document = order.setting(.string(key.order.rawValue), "orderIdentifier")
            .setting(.string(key.orderType.rawValue), "orderTypeIdentifier")
        if document.object?["webServiceURL"]?.string?.hasPrefix("https://") == true {
            document = document.setting("https://wallet.shop.example.com/apple/", "webServiceURL")
        }
        return document
    }

    private static func documents() throws -> [SchemaCase] {
        let changes: [(Int, String, JSON?, Bool)] = [
            (1, "merchant", nil, true), (1, "schemaVersion", nil, true), (5, "schemaVersion", nil, true),
            (5, "schemaVersion", 1, false), (1, "payment.status", nil, false), (1, "updatedAt", "whenever", true),
            (1, "webServiceURL", nil, true), (1, "authenticationToken", nil, true),
            (1, "authenticationToken", "with a space in it", false),
            (1, "lineItems.0.image", "https://cdn.example/lamp.png", true),
            (1, "lineItems.0.image", "http://cdn.example/lamp.png", false), (1, "merchant.logo", "data://x", false),
            (1, "orderType", "shop", false), (1, "createdAt", nil, false), (1, "createdAt", "2025-03-05", false),
        ]
        return try changes.map {
            SchemaCase(
                schema: "order-document", name: "\($0): \($1) = \($2?.text ?? "none")",
                instance: self.owned(try Examples.order($0).setting($2, $1)), isValid: $3)
        }
    }

    private static func events() throws -> [SchemaCase] {
        let document = try Examples.order(1)
        func event(_ type: String, _ data: JSON?) throws -> JSON {
            let event: JSON = [
                "specversion": "1.0", "type": .string(type), "source": "/oms", "id": "1",
                "subject": .string(try SchemaCase.key.description), "time": "2025-03-05T16:02:11Z", "sequence": "17",
                "datacontenttype": "application/json", "traceparent": "00-1",
            ]
            return event.setting(data, "data")
        }
        let valid: [(String, JSON?)] = [
            ("waybill.order.replaced", document), ("waybill.order.patched", ["orderNumber": "2", "notThere": .null]),
            ("waybill.fulfillment.updated", ["fulfillmentIdentifier": "ship-1", "status": "delivered"]),
            (
                "waybill.fulfillment.updated",
                ["fulfillmentIdentifier": "new", "fulfillmentType": "shipping", "status": "open"]
            ),
            ("waybill.return.updated", ["returnIdentifier": "r", "status": "open"]), ("waybill.order.removed", nil),
            ("waybill.order.removed", .null), ("waybill.order.removed", [:]),
            ("waybill.order.merged", ["status": "completed", "owns": ["status", "fulfillments.status"]]),
            ("waybill.order.merged", ["owns": "orderNumber, fulfillments.status"]), ("waybill.order.merged", [:]),
            ("waybill.order.merged", ["webServiceURL": .null, "owns": .null]),
            ("waybill.order.merged", ["keeps": [["payment", "status"], ["fulfillments", "f1", "trackingURL"]]]),
            ("waybill.order.announced", nil), ("waybill.order.announced", ["touch": true]),
        ]
        var cases = try valid.map {
            SchemaCase(schema: "order-change", name: $0, instance: try event($0, $1), isValid: true)
        }
        let broken: [(String, JSON?)] = [
            ("waybill.order.replaced", nil), ("waybill.order.replaced", "x"),
            ("waybill.order.replaced", document.setting("x", "status")), ("waybill.order.patched", nil),
            ("waybill.order.patched", []), ("waybill.fulfillment.updated", ["status": "open"]),
            ("waybill.fulfillment.updated", ["fulfillmentIdentifier": 7]),
            ("waybill.fulfillment.updated", ["fulfillmentIdentifier": ""]),
            ("waybill.return.updated", ["fulfillmentIdentifier": "r"]), ("waybill.order.removed", ["a": 1]),
            ("waybill.order.removed", []), ("waybill.order.refunded", [:]), ("waybill.order.merged", nil),
            ("waybill.order.merged", ["keeps": "status"]), ("waybill.order.merged", ["keeps": [["status"], []]]),
            ("waybill.order.merged", ["keeps": [["status", 7]]]), ("waybill.order.merged", ["owns": 7]),
            ("waybill.order.merged", ["owns": ["status", 7]]),
            ("waybill.order.merged", ["owns": ["a..b"]]), ("waybill.order.merged", ["owns": "a,,b"]),
            ("waybill.order.merged", []), ("waybill.order.announced", ["touch": "yes"]),
            ("waybill.order.announced", ["touched": true]), ("waybill.order.announced", "x"),
        ]
        cases += try broken.map {
            SchemaCase(
                schema: "order-change", name: "\($0) \($1.map { clipped($0.text) } ?? "")", instance: try event($0, $1),
                isValid: false)
        }
        let good = try event("waybill.order.patched", ["orderNumber": "2"])
        for name in [
            "specversion", "type", "source", "id", "subject", "time", "sequence", "datacontenttype", "traceparent",
            "silent", "owns",
        ] {
            for value: JSON? in [nil, .null, 7, "", [:], "x y"] {
                // A subject of another form is not a key; no schema can check that a subject agrees with the key.
                cases.append(
                    SchemaCase(
                        schema: "order-change", name: "\(name) = \(value?.text ?? "none")",
                        instance: good.setting(value, name), isValid: nil))
            }
        }
        for type in [
            "application/json", "Application/JSON; charset=utf-8", " text/json ;x", "application/merge-patch+json",
        ] {
            cases.append(
                SchemaCase(
                    schema: "order-change", name: type, instance: good.setting(.string(type), "datacontenttype"),
                    isValid: true))
        }
        cases.append(
            SchemaCase(
                schema: "order-change", name: "base64", instance: good.setting("e30=", "data_base64"), isValid: false))
        return cases
    }

    private static func records() throws -> [SchemaCase] {
        var state = try Examples.state(1)
        state.positions.apply(source: "/oms", sequence: "12")
        state.contributions = Contributions(before: OrderDocument(members: ["status": "open"]))
        let record = try JSON(parsing: OrderRecord(state, content: RecordTests.content).encoded)
        let registration: JSON = ["format": 1, "pushToken": "00FFee", "registered": 1_767_268_800_000]
        var cases: [SchemaCase] = []
        let pending: JSON = ["format": 1, "registered": 1_767_268_700_000, "since": 1_767_268_800_000]
        let adoption: JSON = [
            "added": 1, "details": 2, "devices": 3, "fetched": 4, "format": 1, "orders": 5, "prompt": 6, "removed": 7,
            "updated": 8,
        ]
        for (schema, json) in [
            ("order-record", record), ("registration", registration), ("pending-push", pending), ("adoption", adoption),
        ] {
            cases.append(SchemaCase(schema: schema, name: "as written", instance: json, isValid: true))
            cases.append(SchemaCase(schema: schema, name: "later", instance: json.setting(1, "later"), isValid: true))
            for path in json.paths where !path.hasPrefix("document.") {
                var variants: [JSON?] = [.null, -7, "x", "", true, [], [:]]
                // The schemas accept an integer written as 1.0 and Swift does not; no program writes it that way.
                if Int(path.split(separator: ".").last ?? "") == nil { variants.append(nil) }
                for value in variants {
                    cases.append(
                        SchemaCase(
                            schema: schema, name: "\(path) = \(value?.text ?? "none")",
                            instance: json.setting(value, path), isValid: nil))
                }
            }
        }
        return cases
    }
}

@Suite struct SchemaFileTests {
    /// order-document.schema.json equals order.schema.json except for the differences listed here.
    @Test func theDocumentSchemaDiffersFromTheOrderSchemaAsListed() throws {
        let order = try JSON(parsing: Examples.bytes("order.schema.json"))
        let document = try JSON(parsing: Examples.bytes("order-document.schema.json"))
        var expected = order
        for name in ["$id", "$comment", "title", "description"] {
            expected = expected.setting(document.object?[name], name)
        }
        let rules = try #require(document.object?["allOf"]?.array)
        #expect(rules.count == 2)
        #expect(rules.first == order.object?["allOf"]?.array?.first)
        let image = try #require(document[path: "$defs.imageName"])
        let name = try #require(document[path: "$defs.documentName"])
        let label = try #require(document[path: "$defs.return.properties.returnLabel"])
        expected = expected.setting(["createdAt", "orderManagementURL", "status"], "required")
            .setting(nil, "dependentRequired").setting(true, "properties.updatedAt")
            .setting(["anyOf": [["$ref": "#/$defs/httpsUrl"], ["type": "null"]]], "properties.webServiceURL")
            .setting(["type": "string", "pattern": "^[!-~]{16,255}$"], "properties.authenticationToken")
            .setting(.array(rules), "allOf").setting(image, "$defs.imageName")
            .setting(name, "$defs.documentName").setting(label, "$defs.return.properties.returnLabel")
            .setting(["$ref": "#/$defs/documentName"], "$defs.paymentTransaction.properties.receipt")
        #expect(document == expected)
        let https: JSON = ["$ref": "#/$defs/httpsUrl"]
        #expect(name[path: "anyOf.0"] == https)
        #expect(label[path: "anyOf.0"] == https)
        #expect(
            label[path: "anyOf.1.pattern"] == order[path: "$defs.return.properties.returnLabel.pattern"])
        #expect(image[path: "anyOf.0"] == ["$ref": "#/$defs/httpsUrl"])
        #expect(image[path: "anyOf.1.not"] == order[path: "$defs.imageName.not"])
    }

    @Test func theDeadLetterSchemaKnowsEveryCode() throws {
        let schema = try JSON(parsing: Examples.bytes("dead-letter.schema.json"))
        let codes = schema[path: "properties.\(RecordHeader.error.rawValue).enum"]?.array?.compactMap(\.string)
        #expect(codes == ChangeFault.Code.allCases.map(\.rawValue) + PushDeadLetterCode.allCases.map(\.rawValue))
        // From a code's prefix, a reader of dead letters of any version knows what to replay.
        #expect(PushDeadLetterCode.allCases.allSatisfy { PushDeadLetterCode.isOne($0.rawValue) })
        #expect(!ChangeFault.Code.allCases.contains { PushDeadLetterCode.isOne($0.rawValue) })
        #expect(
            schema[path: "required"]
                == [
                    .string(RecordHeader.error.rawValue), .string(RecordHeader.reason.rawValue),
                    .string(RecordHeader.origin.rawValue),
                ])
    }

    @Test func theDocumentsKnowEveryHeaderOfARecord() throws {
        let rows = RecordHeader.allCases.map {
            "| `\($0.rawValue)` | \($0.use.topic) | \($0.use.writers) | \($0.use.readers) |"
        }
        #expect(try Repository.lines(rows, missingIn: "Shared/Model/Documentation.docc/Design.md") == [])
        #expect(RecordHeader.allCases.allSatisfy { RecordHeader.isReserved($0.rawValue) })
        let schemas = try ["asyncapi.yaml", "dead-letter.schema.json"].map {
            String(decoding: try Examples.bytes($0), as: UTF8.self)
        }.joined()
        for header in RecordHeader.allCases { #expect(schemas.contains(header.rawValue), "\(header)") }
    }

    /// Each message that has a trace names its headers, and the pattern accepts what Waybill passes on.
    @Test func theSchemasKnowTheHeadersOfATrace() throws {
        let text = String(decoding: try Examples.bytes("asyncapi.yaml"), as: UTF8.self)
        func hasHeaders(_ message: String, _ names: [String]) throws {
            let start = try #require(text.firstRange(of: "\n    \(message):\n"))
            let rest = text[start.upperBound...]
            let section = rest[..<(rest.firstRange(of: /\n {2,4}[a-zA-Z]/)?.lowerBound ?? rest.endIndex)]
            for name in names { #expect(section.contains("\n          \(name):"), "\(message) has no \(name)") }
        }
        let names = [TraceHeader.traceparent, TraceHeader.tracestate]
        for message in ["structuredChange", "binaryChange"] { try hasHeaders(message, names) }
        try hasHeaders("binaryChange", names.map { "ce_\($0)" })
        for message in ["orderRecord", "pendingPush"] { try hasHeaders(message, names + [RecordHeader.links.rawValue]) }
        let letter = try JSON(parsing: Examples.bytes("dead-letter.schema.json"))
        for name in names { #expect(letter[path: "properties.\(name).type"] == "string") }
        let change = try JSON(parsing: Examples.bytes("order-change.schema.json"))
        func pattern(_ name: String) throws -> Regex<AnyRegexOutput> {
            try Regex(try #require(change[path: "$defs.\(name).pattern"]?.string))
        }
        let (parents, states) = (try pattern(names[0]), try pattern(names[1]))
        for parent in TraceContextTests.others + [TraceContextTests.parent] {
            #expect((TraceContext(traceparent: parent) != nil) == (parent.wholeMatch(of: parents) != nil), "\(parent)")
        }
        for state in TraceContextTests.otherStates + ["a=1", String(repeating: " ", count: 512)] {
            let context = TraceContext(traceparent: TraceContextTests.parent, tracestate: state)
            #expect((context?.tracestate != nil) == (state.wholeMatch(of: states) != nil), "\(state)")
        }
    }

    @Test func theChangeSchemaKnowsEveryType() throws {
        let schema = try JSON(parsing: Examples.bytes("order-change.schema.json"))
        #expect(
            schema[path: "properties.type.enum"]?.array?.compactMap(\.string) == ChangeType.allCases.map(\.rawValue))
    }

    @Test func theAsyncAPIDocumentNamesTopicsAndSchemasThatExist() throws {
        let text = String(decoding: try Examples.bytes("asyncapi.yaml"), as: UTF8.self)
        #expect(text.hasPrefix("asyncapi: 3.0.0\n"))
        let topics = Topics()
        for topic in [
            topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters, topics.pushPending,
            topics.adoption,
        ] {
            #expect(text.contains("address: \(topic)\n"))
        }
        let files = text.split(separator: "'").compactMap { part -> String? in
            part.hasPrefix("./") ? String(part.dropFirst(2).prefix { $0 != "#" }) : nil
        }
        #expect(Set(files).count == 8)
        for file in Set(files) { #expect(throws: Never.self) { try JSON(parsing: Examples.bytes(file)) } }
    }
}
