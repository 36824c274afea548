import Foundation
import Kafka
import Model
import TestKit
import Testing

@testable import Packager

/// Loading sources, and what is refused.
@Suite struct SourceLibraryTests {
    private static let program = "function map(e) end"

    @Test func aSourceThatFailsKeepsItsLastGoodStateAndTheOthersAreLoaded() throws {
        let fixture = try SourceFixture()
        try fixture.write("a", topics: ["events.a"], Self.program)
        try fixture.write("b", topics: ["^events\\\\.b.*"], Self.program)
        let library = try SourceLibrary(
            directory: fixture.path, topics: Topics(), isStrict: false, in: SourceFixture.sandbox)
        #expect(library.table.topics == ["events.a", "^events\\.b.*"])
        #expect(library.table.source(of: "events.b2")?.name == "b")
        #expect(library.table.source(of: "events.c") == nil)
        try fixture.put("a/map.lua", "function map(")
        library.look(isAsked: true) { _ in }
        #expect(library.failures["a"]?.description.hasPrefix("a: map.lua:1:") == true)
        #expect(library.table.source(of: "events.a")?.name == "a")
        try fixture.put("a/map.lua", Self.program)
        library.look(isAsked: true) { _ in }
        #expect(library.failures.isEmpty)
        #expect(library.table.sources.map(\.generation) == [1, 0], "what waited for its loading is tried again")
    }

    @Test(arguments: [
        (#""formats": "json""#, "source.json: $.formats is not a known member"),
        (#""owns": "status""#, "source.json: $.owns: must be an array of strings"),
        (#""start": "yesterday""#, "source.json: $.start: must be \"earliest\", \"latest\" or a time"),
        (#""unmapped": "keep""#, "source.json: $.unmapped: \"keep\" must be"),
        (#""limits": {"memoryMiB": 0}"#, "source.json: $.limits.memoryMiB must be an integer from 1 to 32"),
    ])
    func aWrongMemberIsNamed(_ member: String, _ reason: String) throws {
        let fixture = try SourceFixture()
        try fixture.write("a", topics: ["events"], extra: member, Self.program)
        let error = #expect(throws: SourceError.self) { try fixture.load("a") }
        #expect(error?.description.hasPrefix("a: \(reason.split(separator: " must")[0])") == true, "\(error as Any)")
    }

    /// A source's author maintains one folder, and what a registry gets is read from it.
    @Test func aLinkOutOfTheFolderIsRefused() throws {
        let fixture = try SourceFixture()
        let registry = #""registry": {"url": "https://registry.example", "authorization": "authorization"}"#
        try fixture.write("a", topics: ["events"], format: "avro", extra: registry, Self.program)
        try fixture.put("secret", "the secret of another")
        let path = fixture.path + "/a/authorization"
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "../secret")
        let error = #expect(throws: SourceError.self) { try fixture.load("a") }
        #expect(
            error?.description
                == "a: authorization: the link leads out of the directory \(fixture.path)/a; copy the file")
    }

    @Test func topicsBelongToOneSourceAndNotToWaybill() throws {
        let fixture = try SourceFixture()
        try fixture.write("a", topics: ["events"], Self.program)
        try fixture.write("b", topics: ["events"], Self.program)
        #expect(throws: SourceError("b: source.json: $.topics: source a reads events already")) {
            try SourceLibrary(directory: fixture.path, topics: Topics(), isStrict: true, in: SourceFixture.sandbox)
        }
        let own = try SourceFixture()
        try own.write("a", topics: ["^waybill"], Self.program)
        #expect(throws: SourceError.self) {
            try SourceLibrary(directory: own.path, topics: Topics(), isStrict: false, in: SourceFixture.sandbox)
        }
        #expect(throws: SourceError.self) {
            try SourceLibrary(
                directory: own.path + "/none", topics: Topics(), isStrict: false, in: SourceFixture.sandbox)
        }
    }

    @Test func unknownGlobalsAndMembersAreFound() {
        let lint = ProgramLint(
            """
            -- a comment with unknown words
            local names = {blue = "x"}
            function helper(value) return waybill.time(value, "s") end
            function map(event, record)
                for index, item in ipairs(event.items) do tottle = index end
                local text = "unknown in a text" .. [[ and here ]]
                return {{order = event.id, data = {lineItem = {}, status = helpr(evnt.status), title = names.blue}}}
            end
            """)
        #expect(lint.globals == ["map.lua:7: there is no global helpr", "map.lua:7: there is no global evnt"])
        #expect(lint.members == ["map.lua:7: note: no order has a member lineItem"])
    }

    /// A warehouse's program with tables of its own, and four mistakes in the tables that it returns.
    @Test func keysOfOwnTablesAreNotMembersOfOrders() {
        let lint = ProgramLint(
            """
            local status = {ANGELEGT = "open", VERSANDT = "open", ERLEDIGT = "completed"}
            local parcel = waybill.words("parcel", {IN_ZUSTELLUNG = "outForDelivery", ZUGESTELLT = "delivered"})
            local states = {NEU = "open"}
            local known = waybill.words("states", states)
            local carriers = {DHLDE = {title = "DHL", site = "https://www.dhl.de/"}}
            local kinds = {order = "a", delivery = "b"}
            local function line(options) return {title = options.label, quantity = options.count, pric = "1"} end
            local function shipment(parcel_of)
                local made = {fulfillmentIdentifier = parcel_of["@id"], carier = "DHL"}
                made.trackingURL = carriers.DHLDE.site
                return made
            end
            function map(event)
                local items = {}
                for _, item in ipairs(waybill.list(event.items)) do
                    items[#items + 1] = line({label = item.name, count = 1})
                end
                for name in pairs(kinds) do items.last = name end
                return {{order = event.id, data = waybill.drop_nulls({
                    lineItems = items, status = status[event.status] or known[event.state], fulfilments = {
                        shipment(event.parcel), {state = parcel[event.word]},
                    },
                    payment = {total = waybill.money(event.total, "EUR", "major", {decimal = ",", grouping = "."})},
                })}}
            end
            """)
        #expect(lint.globals == [])
        #expect(
            lint.members.map { $0.replacing("note: no order has a member ", with: "") } == [
                "map.lua:7: pric", "map.lua:9: carier", "map.lua:20: fulfilments", "map.lua:21: state",
            ])
    }

    @Test func membersThatTheLibraryDoesNotHaveAreFound() {
        let lint = ProgramLint(
            """
            function map(event)
                local time, name = waybill.tme(event.at, "s"), string.gsub(event.name, " ", "")
                local status = waybill.status.ups(event.status) or waybill.status.easypost(event.status)
                return {{order = event.id:gsub("#", ""), time = time, data = {orderNumber = name:upper() .. math.pi}}}
            end
            """)
        #expect(
            lint.globals.map { String($0.prefix { $0 != "," }) } == [
                "map.lua:2: there is no waybill.tme: it is one of alias",
                "map.lua:2: there is no string.gsub: it is one of byte",
                "map.lua:3: there is no waybill.status.ups: it is one of adobe",
                "map.lua:4: there is no string.gsub", "map.lua:4: there is no math.pi: it is one of abs",
            ])
    }

    /// Adyen sends two decimals of ISK, where ISO 4217 has none.
    @Test(arguments: [
        ("/oms", "", "279000"), ("/adyen", "", "2790"), ("/adyen/transfers", "", "2790"), ("/stripe", "", "2790"),
        ("/oms", #", "minorUnits": "adyen""#, "2790"), ("/adyen", #", "minorUnits": "iso4217""#, "279000"),
        ("/adyenish", "", "279000"),
    ])
    func minorUnitsAreThoseOfTheProvider(_ name: String, _ extra: String, _ amount: String) throws {
        let fixture = try SourceFixture()
        try fixture.put(
            "s/source.json",
            """
            {"topics": ["events"], "format": "json", "name": "\(name)", "orderType": "order.com.example.shop"\(extra)}
            """)
        try fixture.put(
            "s/map.lua",
            """
            function map(e)
                return {{order = "1", data = {payment = {status = "paid", total = waybill.money(e, "ISK", "minor")}}}}
            end
            """)
        let record = KafkaRecord(
            topic: "events", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil, value: Array("279000".utf8))
        let mapping = try SourceMapping(record, try fixture.load("s"), nowEpochSeconds: 0)
        let payment = mapping.events.first?.object?["data"]?.object?["payment"]?.object
        #expect(payment?["total"] == ["amount": .string(amount), "currency": "ISK"])
    }

    @Test func notesTellWhatAnOrderLacksAlone() throws {
        let mapping = try SourceFixture.map(
            """
            function map(event)
                return {{order = "7", data = {
                    createdAt = "2026-01-01T00:00:00Z", status = "open", orderManagementURL = "https://shop.example/7",
                    merchant = event.merchant,
                    payment = {total = {amount = "1.00", currency = "EUR"}}}}}
            end
            """, value: #"{"merchant": {"merchantIdentifier": "m", "displayName": "S", "url": "https://shop.example"}}"#
        )
        guard case .mapped(let changes) = mapping.outcome else {
            Issue.record("not mapped: \(mapping.outcome)")
            return
        }
        let whole = changes.map(\.change)
        let hidden = OrderComparison.notes(on: whole, nowEpochSeconds: 1_767_225_600)
        #expect(hidden.count == 1)
        let guidelines = OrderComparison.guidelines(on: whole)
        #expect(guidelines.count == 1)
        #expect(guidelines.first?.hasPrefix("order.com.example.shop/7: contacts-few: $.merchant: ") == true)
        #expect(hidden.first?.hasPrefix("order.com.example.shop/7: hidden until it is complete: ") == true)
        #expect(hidden.first?.contains("payment") == true)
        #expect(hidden.first?.contains("status") == true)
        let part = try SourceFixture.map(
            #"function map() return {{order = "7", data = {status = "open"}}} end"#, value: "{}")
        guard case .mapped(let parts) = part.outcome else {
            Issue.record("not mapped: \(part.outcome)")
            return
        }
        let notes = OrderComparison.notes(on: parts.map(\.change), nowEpochSeconds: 1_767_225_600)
        #expect(
            notes
                == ["createdAt", "merchant", "orderManagementURL"].map {
                    "order.com.example.shop/7: there is no order as long as $.\($0) is missing"
                })
    }

    /// The examples that operators copy.
    @Test func theExampleSourcesPassTheirTestsAndLint() async throws {
        let directory = Repository.root.appending(path: "compose/connect/sources").path()
        let names = try SourceLibrary.names(in: directory)
        #expect(names.count >= 7)
        for name in names {
            let source = try Source.read(folder: "\(directory)/\(name)", name: name)
            let tests = try SourceTest.all(of: "\(directory)/\(name)")
            #expect(tests.count >= 25, "\(name)")
            for test in tests {
                #expect(await test.differences(source, NearMapper()) == [], "\(name)/\(test.name)")
                #expect(test.content.object?["after"]?.string?.isEmpty == false, "\(name)/\(test.name)")
            }
            let document = try String(
                contentsOf: URL(filePath: "\(directory)/\(name)/README.md"), encoding: .utf8)
            #expect(document.contains("| what the customer sees |"), "\(name)")
            let lint = ProgramLint(String(decoding: source.program.text, as: UTF8.self))
            #expect(lint.globals == [], "\(name)")
        }
    }

    @Test func aTestStandsInForTheOrdersOfParcels() async throws {
        let fixture = try SourceFixture()
        let program = """
            function map(e)
                local order, fulfillment, brand = waybill.alias("UPS", e.number)
                return {{order = order, data = {orderNumber = fulfillment .. (brand or "")}}}
            end
            """
        try fixture.write("a", topics: ["events"], program)
        func differences(_ text: String) async throws -> [String] {
            try fixture.put("a/tests/one.json", text)
            return try await fixture.differences("a")
        }
        let alias = #""aliases": [{"carrier": "ups", "number": "1 Z", "order": "7", "fulfillment": "f"}]"#
        let subject = #""subject": "order.com.example.shop/7", "type": "waybill.order.merged""#
        let change = #"{\#(subject), "data": {"orderNumber": "f"}}"#
        #expect(
            try await differences(#"{\#(alias), "record": {"value": {"number": "1z"}}, "changes": [\#(change)]}"#) == []
        )
        let unknown = #""record": {"value": {"number": "2"}}, "deadLetter": "map-unknown-alias"}"#
        #expect(try await differences("{\(alias), \(unknown)") == [])
        #expect(try await differences("{\(unknown)") == [])
    }

    /// Mistakes in an example's program, each of which its tests or `lint` must find.
    private static let mutations = [
        (#"event.event ~= "tracking_update" and"#, #"event.event ~= "tracking_update" or"#),
        (#"event.event ~= "edd_revise""#, #"event.event ~= "edd_revised""#),
        ("not text(tracking.order_id)", "not tracking.order_id"),
        (#""pickup_at_store""#, #""pickup_at_courier""#), (#"constants.carriers[slug or ""] or slug"#, "slug"),
        ("order = tracking.order_id", "order = tracking.order_number"), ("id = event.event_id", "id = tracking.id"),
        (#"waybill.time(event.ts, "s")"#, #"waybill.time(event.ts, "ms")"#), ("sequence = event.ts,", ""),
        (#"source = "/aftership/" .. tracking.id,"#, ""),
        ("fields[constants.fulfillment]", "fields.fulfilment"), (" or tracking.id\n", "\n"),
        (#"is_returned and "issue" or "#, ""), ("aftership(tracking.tag)", "aftership(tracking.subtag)"),
        ("waybill.url(leg.courier_tracking_link) or carrier", "carrier"),
        ("moment(tracking.shipment_pickup_date)", "moment(tracking.shipment_delivery_date)"),
        ("not is_returned and tracking.tag", "tracking.tag"),
        ("waybill.time(value, constants.zone)", #"waybill.time(value, "UTC")"#),
        ("text(latest.datetime) or", "latest.datetime or"), ("tracking.expected_delivery", "tracking.expected"),
        ("fulfillmentType =", "fulfilmentType ="), ("text(leg.tracking_number))", "text(lg.tracking_number))"),
        (#"slug == "unrecognized""#, #"slug == "unknown""#), ("constants.descriptions[tracking.subtag] or ", ""),
        ("last and text(last.tracking_number) and last or tracking", "last or tracking"),
    ]

    @Test(arguments: Self.mutations) func aMistakeInAnExampleIsFound(_ text: String, _ mistake: String) async throws {
        let folder = Repository.root.appending(path: "compose/connect/sources/aftership")
        func content(_ name: String) throws -> String {
            String(decoding: try Data(contentsOf: folder.appending(path: name)), as: UTF8.self)
        }
        let program = try content("map.lua")
        let mutant = program.replacing(text, with: mistake)
        try #require(mutant != program, "the program has no \(text)")
        let fixture = try SourceFixture()
        try fixture.put("a/source.json", try content("source.json"))
        try fixture.put("a/map.lua", mutant)
        let source = try fixture.load("a")
        let tests = try SourceTest.all(of: folder.path())
        var isFound = !ProgramLint(mutant).globals.isEmpty
        for test in tests where !isFound { isFound = await !test.differences(source, NearMapper()).isEmpty }
        #expect(isFound)
    }

    /// Prices and sums of an example, by its constant.
    @Test(arguments: [
        ("\"tax_included\": false", "16.81", ["Subtotal 16.81", "Tax 3.19"]),
        ("\"tax_included\": true", "20.00", ["Subtotal 20.00"]),
    ]) func anExampleShowsPricesAsTheShopDoes(_ constant: String, _ price: String, _ sums: [String]) async throws {
        let folder = Repository.root.appending(path: "compose/connect/sources/adobe-commerce")
        func content(_ name: String) throws -> String {
            String(decoding: try Data(contentsOf: folder.appending(path: name)), as: UTF8.self)
        }
        let fixture = try SourceFixture()
        try fixture.put(
            "a/source.json", try content("source.json").replacing("\"tax_included\": false", with: constant))
        try fixture.put("a/map.lua", try content("map.lua"))
        let source = try fixture.load("a")
        let test = try #require(try SourceTest.all(of: folder.path()).first { $0.name == "four-places.json" })
        guard case .mapped(let changes)? = await test.outcome(source, NearMapper()) else {
            Issue.record("not mapped")
            return
        }
        let value = try JSON(parsing: try #require(changes.first?.message.value))
        let data = try #require(value.object?["data"]?.object)
        #expect(data["lineItems"]?.array?.first?.object?["price"] == ["amount": .string(price), "currency": "EUR"])
        let items = data["payment"]?.object?["summaryItems"]?.array ?? []
        let shown = items.compactMap { item in
            let (label, amount) = (item.object?["label"]?.string, item.object?["value"]?.object?["amount"]?.string)
            return label.flatMap { label in amount.map { "\(label) \($0)" } }
        }
        #expect(shown == sums)
    }

    @Test func aTestTellsTheDifference() async throws {
        let fixture = try SourceFixture()
        try fixture.write(
            "a", topics: ["events"], "function map(e) return {{order = e.id, data = {orderNumber = 'x'}}} end")
        func differences(_ changes: String) async throws -> [String] {
            try fixture.put(
                "a/tests/one.json", #"{"record": {"value": {"id": 1}}, \#(changes)}"#)
            return try await fixture.differences("a")
        }
        let subject = #""subject": "order.com.example.shop/1", "type": "waybill.order.merged""#
        #expect(try await differences(#""changes": [{\#(subject), "data": {"orderNumber": "x"}}]"#) == [])
        #expect(
            try await differences(#""changes": [{\#(subject), "data": {"orderNumber": "y"}}]"#) == [
                #"changes[0].data.orderNumber: expected "y", it is "x""#
            ])
        #expect(try await differences(#""changes": []"#).count == 2)
        #expect(try await differences(#""deadLetter": "map-failed""#).count == 1)
        try fixture.write(
            "a", topics: ["events"],
            "function map(e) return {{order = '1', data = {createdAt = '2026-06-01T00:00:00Z'}}} end")
        let early = try await differences(#""changes": [{\#(subject), "data": {"createdAt": "2026-06-01T00:00:00Z"}}]"#)
        #expect(early.first?.contains("in the future") == true)
        #expect(early.last?.hasPrefix(#"give the record its "time""#) == true)
    }
}
