import Lua
import Model
import Testing

/// The library `waybill`.
@Suite struct LuaLibraryTests {
    @Test(arguments: [
        (#""199.00", "USD", "major""#, "199.00"), (#"199, "USD", "major""#, "199.00"),
        (#""199.9000", "EUR", "major""#, "199.90"), (#"19900, "EUR", "minor""#, "199.00"),
        (#"5, "EUR", "minor""#, "0.05"), (#"-5, "EUR", "minor""#, "-0.05"), (#""-0.00", "EUR", "major""#, "0.00"),
        (#"500, "JPY", "minor""#, "500"), (#""500.00", "JPY", "major""#, "500"),
        (#"1500, "KWD", "minor""#, "1.500"), (#""1.5", "KWD", "major""#, "1.500"),
        (#""12345678901234567890.12", "USD", "major""#, "12345678901234567890.12"),
        (#""1.5e2", "USD", "major""#, "150.00"), (#""007.5", "USD", "major""#, "7.50"),
        (#""59,80", "EUR", "major", {decimal = ","}"#, "59.80"), (#""59", "EUR", "major", {decimal = ","}"#, "59.00"),
        (#""1.129,90", "EUR", "major", {decimal = ",", grouping = "."}"#, "1129.90"),
        (#""12,34,567.5", "INR", "major", {grouping = ","}"#, "1234567.50"),
        (#""-1 129,9", "SEK", "major", {decimal = ",", grouping = " "}"#, "-1129.90"),
        (#""1'129.90", "CHF", "major", {grouping = "'"}"#, "1129.90"),
        // Adyen, "Currency codes and minor units": these four differ from ISO 4217.
        (#"279000, "ISK", "adyen""#, "2790"), (#"990000, "CLP", "adyen""#, "9900"),
        (#"250000, "IDR", "adyen""#, "250000.00"), (#"1500, "CVE", "adyen""#, "1500.00"),
        (#"1990, "EUR", "adyen""#, "19.90"), (#"1990, "JPY", "adyen""#, "1990"), (#"1500, "BHD", "adyen""#, "1.500"),
        // Stripe, "Supported currencies": zero-decimal and three-decimal currencies, special cases.
        (#"500, "ISK", "stripe""#, "5"), (#"500, "UGX", "stripe""#, "5"), (#"500, "MGA", "stripe""#, "500.00"),
        (#"500, "jpy", "stripe""#, "500"), (#"5120, "KWD", "stripe""#, "5.120"), (#"1045, "huf", "stripe""#, "10.45"),
        (#"80045, "twd", "stripe""#, "800.45"), (#"990000, "CLP", "stripe""#, "990000"),
    ])
    func moneyIsComputedOnDigits(_ arguments: String, _ amount: String) throws {
        #expect(try self.value("waybill.money(\(arguments)).amount") == .string(amount))
    }

    /// `LuaProgram.members` tells `lint` what a program may use.
    @Test func theMembersOfTheLibraryAreThoseThatAreListed() throws {
        let offered = LuaProgram.members
        for (table, members) in offered {
            for member in members { #expect(try self.value("\(table).\(member) ~= nil") == true, "\(table).\(member)") }
        }
        let others: [String: Set<String>] = [
            "math": [
                "acos", "asin", "atan", "cos", "deg", "exp", "log", "pi", "pow", "rad", "random", "randomseed", "sin",
                "sqrt", "tan",
            ],
            "string": LuaProgram.missingMethods, "table": ["move", "pack"], "utf8": ["charpattern", "codes"],
        ]
        for (table, members) in others {
            #expect(offered[table]?.isDisjoint(with: members) == true)
            for member in members { #expect(try self.value("\(table).\(member) == nil") == true, "\(table).\(member)") }
        }
    }

    @Test(arguments: [
        #""1.999", "EUR", "major""#, #""500.5", "JPY", "major""#, #""1,5", "EUR", "major""#, #""", "EUR", "major""#,
        #"nil, "EUR", "major""#, #"1, "EURO", "major""#, #"1, nil, "major""#, #"1, "EUR""#, #"1, "EUR", "cents""#,
        #""1.", "EUR", "major""#, #"".5", "EUR", "major""#, #""--1", "EUR", "major""#, #""1e99", "EUR", "major""#,
        #"1.5, "EUR", "major""#, #"{}, "EUR", "major""#, #""0x10", "EUR", "major""#, #"" 1", "EUR", "major""#,
        #""59.80", "EUR", "major", {decimal = ","}"#, #""1,129.90", "EUR", "major""#,
        #""1.12", "EUR", "major", {decimal = ",", grouping = "."}"#,
        #""1.1299", "EUR", "major", {decimal = ",", grouping = "."}"#,
        #""1.129,90", "EUR", "major", {decimal = ",", grouping = ","}"#, #""1", "EUR", "major", {decimal = "x"}"#,
        #""1", "EUR", "major", {decimal = ",", thousands = "."}"#, #""1", "EUR", "major", ",""#,
        #"279050, "ISK", "adyen""#, #"550, "UGX", "stripe""#, #"1, "EUR", "iso4217""#, #"1, "EUR", "paypal""#,
    ])
    func moneyThatIsNotExactIsRefused(_ arguments: String) {
        #expect(throws: LuaFailure.self) { try self.value("waybill.money(\(arguments))") }
    }

    @Test func aCommaInAnAmountNamesTheWayOut() {
        let failure = #expect(throws: LuaFailure.self) { try self.value(#"waybill.money("59,80", "EUR", "major")"#) }
        #expect(failure?.message.contains(#"59,80 is not a decimal number"#) == true)
        #expect(failure?.message.contains(#"{decimal = ","}"#) == true)
    }

    /// A source that is Adyen's says so once.
    @Test func minorUnitsAreThoseOfTheSource() throws {
        let text = #"function map(e) return {{data = waybill.money(e, "ISK", "minor")}} end"#
        for (units, amount) in [(MinorUnits.iso4217, "279000"), (.adyen, "2790"), (.stripe, "2790")] {
            let program = try LuaProgram(Array(text.utf8), minorUnits: units)
            let data = try program.map(279_000, record: .null).value.array?.first?.object?["data"]
            #expect(data == ["amount": .string(amount), "currency": "ISK"])
        }
    }

    @Test(arguments: [
        (#""0.500""#, "0.500"), (#""0.5000", "shortest""#, "0.5"), (#""2.0000", "shortest""#, "2"), (#""2""#, "2"),
        (#""2.00""#, "2.00"), ("7", "7"), (#""-0.0", "shortest""#, "0"), (#""1.5e2""#, "150"), (#""15e-1""#, "1.5"),
        (#""0,500", {decimal = ","}"#, "0.500"),
        (#""1.000,50", "shortest", {decimal = ",", grouping = "."}"#, "1000.5"),
        (#""12345678901234567890""#, "12345678901234567890"), (#""007.50""#, "7.50"),
        (#"waybill.number("0.50")"#, "0.50"),
    ])
    func aDecimalLeavesAsANumberWithItsText(_ arguments: String, _ text: String) throws {
        #expect(try self.value("waybill.number(\(arguments))") == JSONNumber(text).map { .number($0) })
    }

    @Test(arguments: [
        #""0,5""#, #""""#, "nil", "null", "{}", "true", #""NaN""#, #""0x1p4""#, #""1" , "short""#, "0.5", #"".5""#,
        #""5.""#,
        #""1e99""#,
    ])
    func whatIsNoDecimalIsRefused(_ arguments: String) {
        #expect(throws: LuaFailure.self) { try self.value("waybill.number(\(arguments))") }
    }

    @Test(arguments: [
        #"waybill.number("0.50") > 0"#, #"waybill.number("0.50") < "0.6""#,
        #"waybill.number("-1.5") < waybill.number("1.25")"#,
        #"waybill.number("10.5") > waybill.number("9.75")"#, #"waybill.number("-10.5") < waybill.number("-9.75")"#,
        #"waybill.number("0.50") == waybill.number("0.5")"#, #"waybill.number("0.50") ~= waybill.number("0.51")"#,
        #"waybill.number("0.50") <= waybill.number("0.5")"#, #"not (waybill.number("0.5") < waybill.number("0.50"))"#,
        #"type(waybill.number("0.5")) == "number""#, #"tostring(waybill.number("0.50")) == "0.50""#,
        #""x" .. waybill.number("0.50") .. "y" == "x0.50y""#,
        #"waybill.money(waybill.number("0.50"), "EUR", "major").amount == "0.50""#,
        #"waybill.integer(waybill.number("3.00")) == 3"#,
    ])
    func decimalsAreComparedAndHandedOn(_ expression: String) throws {
        #expect(try self.value(expression) == true)
    }

    @Test(arguments: [
        #"waybill.number("0.5") * 2"#, #"waybill.number("0.5") < {}"#, #"waybill.number("0.5") .. {}"#,
        #"waybill.number("0.5").x"#, #"waybill.number("0.5") < "x""#,
    ])
    func decimalsTakeNoPartInArithmetic(_ expression: String) {
        let failure = #expect(throws: LuaFailure.self) { try self.value(expression) }
        #expect(failure?.message.hasPrefix("map.lua:1: ") == true, "\(failure?.message ?? "")")
    }

    /// As it arrived where an order has a number, which may be half a kilogram.
    @Test(arguments: [("0.5", "0.5"), ("0.500", "0.500"), ("2", "2"), (#""0.50""#, "0.50"), ("1e-1", "1e-1")])
    func aDecimalOfAnEventLeavesAsItArrived(_ quantity: String, _ text: String) throws {
        let program = """
            function map(e)
                return {{data = {lineItems = {{quantity = e.q, title = e.t}}}},
                        {type = "fulfillment.updated",
                         data = {lineItems = {{quantity = e.q}}, location = {latitude = e.q}}}}
            end
            """
        let event = try JSON(parsing: Array(#"{"q": \#(quantity), "t": "0.5"}"#.utf8))
        let changes = try LuaProgram(Array(program.utf8)).map(event, record: .null).value.array
        let number = JSONNumber(text).map { JSON.number($0) }
        let item = changes?.first?.object?["data"]?.object?["lineItems"]?.array?.first?.object
        #expect(item?["quantity"] == number)
        #expect(item?["title"] == "0.5")
        let fulfillment = changes?.last?.object?["data"]?.object
        #expect(fulfillment?["lineItems"]?.array?.first?.object?["quantity"] == number)
        #expect(fulfillment?["location"]?.object?["latitude"] == number)
    }

    @Test func ownWordsAreCountedAsThoseOfTheLibrary() throws {
        let text = """
            local status = waybill.words("status", {
                IN_ZUSTELLUNG = "outForDelivery", ["IN LAGER"] = false, [7] = "open",
            })
            function map(event)
                local found = {}
                for index, word in ipairs(event) do found[index] = status[word] or null end
                found[#found + 1] = status[nil] or null
                return {{data = {found = found}}}
            end
            """
        let program = try LuaProgram(Array(text.utf8))
        let long = String(repeating: "ä", count: 5000)
        let words: JSON = ["IN_ZUSTELLUNG", "IN LAGER", 7, "BESCHAEDIGT", .null, "", 8, true, [:], .string(long)]
        for _ in 0..<2 {
            let result = try program.map(words, record: .null)
            let found = result.value.array?.first?.object?["data"]?.object?["found"]?.array
            #expect(found?.compactMap(\.string) == ["outForDelivery", "open"])
            #expect(result.unknown.map(\.table) == Array(repeating: "status", count: 5))
            #expect(result.unknown.map(\.value).prefix(4) == ["BESCHAEDIGT", "8", "true", "table"])
            #expect(result.unknown.last?.value.hasPrefix("ää") == true)
        }
    }

    @Test(arguments: [
        #"waybill.words("a b", {})"#, #"waybill.words(nil, {})"#, #"waybill.words("a", nil)"#, #"waybill.words({})"#,
        #"waybill.words(("a"):rep(41), {})"#, #"(function() waybill.words("a", {}).b = 1 end)()"#,
    ])
    func aTableOfWordsHasANameAndIsNotChanged(_ expression: String) {
        #expect(throws: LuaFailure.self) { try self.value(expression) }
    }

    @Test(arguments: [
        (#""https://cdn.example.com/Kaffee Tasse.jpg""#, "https://cdn.example.com/Kaffee%20Tasse.jpg"),
        (#""//cdn.example.com/grün.jpg""#, "https://cdn.example.com/gr%C3%BCn.jpg"),
        (#""https://example.com/" .. ("a"):rep(3000)"#, "https://example.com/" + String(repeating: "a", count: 3000)),
        (#""www.example.com""#, nil), ("nil", nil), ("null", nil), ("7", nil), ("{}", nil), (#"("x"):rep(10000)"#, nil),
        (#""https://example.com/" .. ("ü"):rep(2000)"#, nil),
    ])
    func aLinkIsMendedOrNil(_ text: String, _ url: String?) throws {
        #expect(try self.value("waybill.url(\(text))") == url.map { .string($0) })
    }

    @Test func oneOrManyAreAList() throws {
        let text = """
            function map(e)
                local lists = {}
                for index, value in ipairs(e) do lists[index] = #waybill.list(value) end
                return {{data = {lists = lists, none = #waybill.list(nil), first = waybill.list(e[2])[1].a}}}
            end
            """
        let event: JSON = [.null, ["a": 1], [["a": 1], ["a": 2]], [], [:], "x", 7, [.null, .null], false]
        let data = try LuaProgram(Array(text.utf8)).map(event, record: .null).value.array?.first?.object?["data"]
        #expect(data == ["lists": [0, 1, 2, 0, 0, 1, 1, 2, 1], "none": 0, "first": 1])
    }

    @Test(arguments: [
        (#"1741190531, "s""#, "2025-03-05T16:02:11Z"), (#"1741190531999, "ms""#, "2025-03-05T16:02:11Z"),
        (#"1741190531999999, "us""#, "2025-03-05T16:02:11Z"), (#"1741190531999999999, "ns""#, "2025-03-05T16:02:11Z"),
        (#""1741190531.123", "s""#, "2025-03-05T16:02:11Z"), (#"20152, "days""#, "2025-03-05T00:00:00Z"),
        (#"-1, "ms""#, "1969-12-31T23:59:59Z"), (#""2025-03-05T11:02:11-05:00""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05T16:02:11.123456Z""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05 16:02:11 UTC""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05T11:02:11-0500""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05 11:02:11 -0500""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05T11:02:11+02""#, "2025-03-05T09:02:11Z"),
        (#""2025-03-05 16:02:11", "UTC""#, "2025-03-05T16:02:11Z"),
        (#""2025-03-05 17:02:11", "Europe/Berlin""#, "2025-03-05T16:02:11Z"),
        (#""2025-07-05 17:02:11", "Europe/Berlin""#, "2025-07-05T15:02:11Z"),
        (#""2025-07-05 17:02", "America/New_York""#, "2025-07-05T21:02:00Z"),
        (#""2060-07-05 17:02:11", "Europe/Berlin""#, "2060-07-05T15:02:11Z"),
        (#""2060-12-05 17:02:11", "Australia/Sydney""#, "2060-12-05T06:02:11Z"),
        (#""2025-03-30 02:30:00", "Europe/Berlin""#, "2025-03-30T01:30:00Z"),
        (#""2025-10-26 02:30:00", "Europe/Berlin""#, "2025-10-26T00:30:00Z"),
        (#""2025-03-05", "Asia/Tokyo""#, "2025-03-04T15:00:00Z"),
        // Java's OffsetDateTime and ZonedDateTime leave out seconds that are zero.
        (#""2026-01-10T10:05Z""#, "2026-01-10T10:05:00Z"), (#""2026-01-10T11:05+01:00""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10T11:05+01:00[Europe/Berlin]""#, "2026-01-10T10:05:00Z"),
        // RFC 9557
        (#""2026-01-10T10:05:00+01:00[Europe/Berlin]""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00+01:00[!Europe/Berlin]""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00Z[Europe/Berlin]""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10T10:05:00-00:00[Europe/Berlin]""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10T10:05:00[Europe/Berlin]""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00[Europe/Berlin]", "Asia/Tokyo""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00+01:00[+01:00]""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00+01:00[Europe/Berlin][u-ca=gregory]""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00Z[u-ca=hebrew][_x=1]""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10T10:05:00Z[!u-ca=iso8601]""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10T10:05:00+05:00[Mars/Base]""#, "2026-01-10T05:05:00Z"),
        (#""2025-10-26T02:30:00+01:00[Europe/Berlin]""#, "2025-10-26T01:30:00Z"),
        (#""2025-10-26T02:30:00+02:00[Europe/Berlin]""#, "2025-10-26T00:30:00Z"),
        // ISO 8601
        (#""20260110T100500Z""#, "2026-01-10T10:05:00Z"), (#""20260110T1005+0100""#, "2026-01-10T09:05:00Z"),
        (#""20260110", "UTC""#, "2026-01-10T00:00:00Z"), (#""20260110T100500.5", "UTC""#, "2026-01-10T10:05:00Z"),
        (#""20260110100500", "Europe/Berlin""#, "2026-01-10T09:05:00Z"),
        (#""2026-01-10T10:05:00,123Z""#, "2026-01-10T10:05:00Z"), (#""2026-01-10t10:05:00z""#, "2026-01-10T10:05:00Z"),
        (#""2026-01-10+01:00""#, "2026-01-09T23:00:00Z"), (#""2026-01-10T24:00Z""#, "2026-01-11T00:00:00Z"),
        // RFC 5322, HTTP, JavaScript
        (#""Sat, 10 Jan 2026 10:05:00 +0100""#, "2026-01-10T09:05:00Z"),
        (#""Sat, 10 Jan 2026 10:05:00 GMT""#, "2026-01-10T10:05:00Z"),
        (#""10 jan 2026 10:05 -0500 (EST)""#, "2026-01-10T15:05:00Z"),
        (#""1 Jan 2026 00:05:00", "Europe/Berlin""#, "2025-12-31T23:05:00Z"),
        (#""Sat Jan 10 2026 10:05:00 GMT+0100 (Central European Standard Time)""#, "2026-01-10T09:05:00Z"),
        (#""10-JAN-2026", "UTC""#, "2026-01-10T00:00:00Z"),
        (#""Thu, 01 Jan 1970 00:00:00 GMT""#, "1970-01-01T00:00:00Z"),
        // .NET
        (#""/Date(1768039500000)/""#, "2026-01-10T10:05:00Z"),
        (#""/Date(1768039500000+0100)/""#, "2026-01-10T10:05:00Z"),
        (#""/Date(-62135596800000)/""#, "0001-01-01T00:00:00Z"), (#""/Date(-1)/""#, "1969-12-31T23:59:59Z"),
    ])
    func momentsAreInUTC(_ arguments: String, _ text: String) throws {
        #expect(try self.value("waybill.time(\(arguments))") == .string(text))
    }

    @Test func aParcelHasAnOrderOrEndsTheRun() throws {
        let text = """
            function map(e)
                local order, fulfillment, brand = waybill.alias(e.carrier, e.number)
                return {order, fulfillment, brand}
            end
            """
        let program = try LuaProgram(Array(text.utf8))
        func map(_ event: JSON, _ parcels: [Parcel: ParcelOwner?]) throws(LuaFailure) -> JSON {
            try program.map(event, record: [:], parcels: parcels).value
        }
        let ours = try #require(Parcel(carrier: "DHL", number: "12"))
        let theirs = try #require(Parcel(carrier: "dhlpaket", number: "12"))
        let event: JSON = ["carrier": "DHL Paket", "number": "1 2"]
        // Under the name of the event, and under the one that waybill.carrier gives.
        let failure = #expect(throws: LuaFailure.self) { try map(event, [:]) }
        #expect(failure?.kind == .unknownParcel)
        #expect(failure?.parcels == [theirs, ours])
        #expect(failure?.message == "map.lua:2: alias: no order has the parcel dhlpaket 12")
        let nobody: ParcelOwner? = nil
        let owner = ParcelOwner(order: "7", fulfillment: "f", brand: "b")
        #expect(try map(event, [theirs: nobody, ours: owner]) == ["7", "f", "b"])
        let nameless = try #require(Parcel(carrier: "", number: "12"))
        #expect(try map(["carrier": .null, "number": 12], [nameless: owner]) == ["7", "f", "b"])
        let missing = #expect(throws: LuaFailure.self) { try map(event, [theirs: nobody, ours: nobody]) }
        #expect(missing?.kind == .unknownParcel)
        let wrong = #expect(throws: LuaFailure.self) { try map(["carrier": "UPS"], [:]) }
        #expect(wrong?.kind == .failed)
    }

    @Test(arguments: [
        "1741190531", #""2025-03-05 16:02:11""#, #""yesterday", "UTC""#, #""2025-02-30T00:00:00Z""#, "nil",
        #"9223372036854775807, "s""#, #"9223372036854775807, "days""#, #""2025-03-05 16:02:11", "Mars/Base""#,
        #""2025-03-05 16:02:11", "../../etc/passwd""#, #""1.2.3", "s""#, #""x", "ms""#,
        #""10/01/2026", "UTC""#, #""10.01.2026 10:05", "UTC""#, #""01-10-2026", "UTC""#, #""1/10/26", "UTC""#,
        #""2026-01-10T10:05:00+02:00[Europe/Berlin]""#, #""2026-07-10T10:05:00+01:00[!Europe/Berlin]""#,
        #""2026-01-10T10:05:00Z[!Mars/Base]""#, #""2026-01-10T10:05:00[Mars/Base]""#,
        #""2026-01-10T10:05:00Z[!u-ca=hebrew]""#, #""2026-01-10T10:05:00Z[!x=1]""#, #""2026-01-10T10:05:00Z[]""#,
        #""2026-01-10T10:05:00Z[Europe/Berlin""#, #""2026-01-10T10:05:00+01:00[+02:00]""#,
        #""2026-01-10T10:05:00+01:00[Europe/Berlin][Europe/Paris]""#, #""2026-01-10 10:05:00 PM", "UTC""#,
        #""Sun, 10 Jan 2026 10:05:00 GMT""#, #""10 Jan 26 10:05:00 GMT""#, #""10 Jan 2026 10:05:00 CST""#,
        #""10 Foo 2026", "UTC""#, #""2026-01-10T10:05:00 Europe/Berlin""#, #""2026-01-10T10:60Z""#,
        #""2026-01-10T25:00Z""#, #""2026-01-10T24:01Z""#, #""2026-01-10T10:05:00.Z""#, #""2026-02-30", "UTC""#,
        #""/Date(1768039500000)""#, #""/Date(x)/""#, #""/Date(99999999999999999999)/""#, #""""#, #""2026", "UTC""#,
        #""1768039500", "UTC""#, #""2026-W02-6", "UTC""#, #"("2"):rep(8000), "UTC""#, #""20261310", "UTC""#,
    ])
    func aMomentThatIsNotCertainIsRefused(_ arguments: String) {
        #expect(throws: LuaFailure.self) { try self.value("waybill.time(\(arguments))") }
    }

    @Test(arguments: [
        (#""10/01/2026""#, "like 2026-01-10"), (#""tomorrow""#, "like 2026-01-10T10:05:00+01:00"),
        (#""1768039500""#, "needs its unit"), (#""2026-01-10""#, "name its zone"),
        (#""2026-01-10T10:05:00+02:00[Europe/Berlin]""#, "leave out the wrong one"),
    ])
    func aRefusedMomentSaysWhatToWrite(_ arguments: String, _ remedy: String) {
        let failure = #expect(throws: LuaFailure.self) { try self.value("waybill.time(\(arguments))") }
        #expect(failure?.message.contains(remedy) == true, "\(failure?.message ?? "")")
    }

    @Test func carriersAreKnownByTheirNames() throws {
        #expect(
            try self.value(#"waybill.carrier("UPS", "1Z9999W99999999999")"#) == [
                "carrier": "UPS", "trackingNumber": "1Z9999W99999999999",
                "trackingURL": "https://www.ups.com/track?tracknum=1Z9999W99999999999",
            ])
        #expect(
            try self.value(#"waybill.carrier("Royal Mail", "A/B")"#) == [
                "carrier": "Royal Mail", "trackingNumber": "A/B",
            ])
    }

    @Test func anUnknownStatusIsLeftOutAndCounted() throws {
        let text = """
            function map(event)
                local status = waybill.status
                return {{data = {known = status.easypost("in_transit"), empty = status.easypost("unknown"),
                    other = status.shopify("teleported"), missing = status.adobe(nil), number = status.aftership(7),
                    own = waybill.carrier("Pigeon Post", "7").carrier}}}
            end
            """
        let result = try LuaProgram(Array(text.utf8)).map(.null, record: .null)
        #expect(result.value == [["data": ["known": "onTheWay", "own": "Pigeon Post"]]])
        #expect(
            result.unknown.map { "\($0.table)=\($0.value)" } == [
                "status.shopify=teleported", "status.aftership=7", "carrier=Pigeon Post",
            ])
    }

    @Test func textsAreSplitAndNumbersAreWhole() throws {
        #expect(try self.value(#"waybill.split("a, b,,c", ",")"#) == ["a", " b", "", "c"])
        #expect(try self.value(#"waybill.integer("2.00")"#) == 2)
        #expect(throws: LuaFailure.self) { try self.value(#"waybill.integer("2.5")"#) }
    }

    private func value(_ expression: String) throws -> JSON? {
        let text = "function map(event, record) return {{data = {value = \(expression)}}} end"
        let result = try LuaProgram(Array(text.utf8)).map(.null, record: .null)
        return result.value.array?.first?.object?["data"]?.object?["value"]
    }
}
