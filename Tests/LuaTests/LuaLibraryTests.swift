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
    ])
    func moneyThatIsNotExactIsRefused(_ arguments: String) {
        #expect(throws: LuaFailure.self) { try self.value("waybill.money(\(arguments))") }
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
    ])
    func aMomentThatIsNotCertainIsRefused(_ arguments: String) {
        #expect(throws: LuaFailure.self) { try self.value("waybill.time(\(arguments))") }
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
