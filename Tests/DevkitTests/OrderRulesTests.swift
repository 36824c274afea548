import Model
import TestKit
import Testing

@testable import Devkit

/// The judge's rules for order.json against Model's; the two were written independently.
@Suite struct OrderRulesTests {
    static let examples = [
        "01-shipping-multi-fulfillment", "02-pickup-barcode", "03-return-refund", "05-schema2-order-provider",
    ]

    private static func found(_ order: JSON) -> [PackageViolation] {
        let none: Set<ViolationCode> = [.orderFileMissing, .orderFileName]
        return OrderRules.violations(order, certificateOrderType: nil, files: PackageFiles(ZipReader([])))
            .filter { !none.contains($0.code) }
    }

    /// Model's validator adds rules of Waybill's own, but must refuse every order that the judge refuses.
    @Test(arguments: examples)
    func theValidatorRefusesEveryOrderThatOrderRulesRefuse(_ name: String) throws {
        var order = JSON.object(try PackageFixture.example(name).document)
        let owned: [(String, JSON)] = [
            ("schemaVersion", name.hasPrefix("05") ? 2 : 1), ("orderType", "ecommerce"),
            ("orderTypeIdentifier", "order.com.example.shop"), ("orderIdentifier", "o-1"),
            ("updatedAt", "2027-01-15T08:00:00Z"), ("webServiceURL", "https://wallet.example.com/"),
            ("authenticationToken", "0123456789abcdef"),
        ]
        for (name, value) in owned { order = order.setting(value, name) }
        #expect(Self.found(order) == [])
        var refused = 0
        var houseOnly: Set<String> = []
        for path in order.paths {
            let values: [JSON?] = [nil, .null, 7, "x", "", true, [], [:], "2025-02-30T00:00:00Z", "P1H", "-1", "ab:c"]
            for value in values {
                let mutant = order.setting(value, path)
                let found = Self.found(mutant)
                let byModel = OrderValidator.violations(
                    in: mutant, allowUnknownMembers: true, nowEpochSeconds: nil, files: .names)
                if !found.isEmpty {
                    refused += 1
                    #expect(!byModel.isEmpty, "\(path) = \(value?.text ?? "none"): \(found)")
                } else if !byModel.isEmpty {
                    houseOnly.insert(byModel[0].message)
                }
            }
        }
        #expect(refused > 300)
        // The types of values are Apple's rules: if only Model refused them, the judge would lack a rule.
        let kinds = houseOnly.filter { $0.contains("it is a ") || $0.contains("is missing") }
        #expect(kinds.allSatisfy { $0.contains("needs it") || $0.contains("file") || $0.contains("image") }, "\(kinds)")
    }

    @Test func bothTimestampParsersAgree() {
        var random = SeededGenerator(seed: 3)
        for _ in 0..<2000 {
            let seconds = Int64.random(in: -62_167_219_200...253_402_300_799, using: &random)
            let text = RFC3339.format(epochSeconds: seconds)
            #expect(OrderText.moment(text)?.seconds == Int(seconds), "\(text)")
        }
        let texts = [
            "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z",
            "2025-01-01T00:00:00+05:30", "2025-01-01T00:00:00-00:00", "2025-01-01T24:00:00Z", "2025-01-01T00:60:00Z",
            "2025-01-01T00:00:60Z", "2025-13-01T00:00:00Z", "2025-00-01T00:00:00Z", "2025-01-00T00:00:00Z",
            "2025-01-01T00:00:00", "2025-01-01T00:00:00z", "2025-01-01 00:00:00Z", "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00.123456Z", "2025-01-01T00:00:00+24:00", "2025-01-01T00:00:00+0530", "", "2025-01-01",
            "٢٠٢٥-01-01T00:00:00Z", "2025-01-01T00:00:00ZZ", "0000-01-01T00:00:00Z", "0000-03-01T00:00:00+23:59",
        ]
        for text in texts {
            #expect(OrderText.moment(text).map { Int64($0.seconds) } == RFC3339.parse(text), "\(text)")
        }
    }

    @Test(arguments: [
        ("PT2H", true), ("P0Y0M0DT0H30M0S", true), ("P1DT12H", true), ("P2W", true), ("PT1.5S", true), ("P1Y", true),
        ("P", false), ("PT", false), ("P1H", false), ("PT1D", false), ("P1DT", false), ("PT1M1H", false), ("2H", false),
        ("PT-1H", false), ("PT1.5H", false), ("P1W2D", false), ("P1D1D", false), ("PTH", false), ("pt1h", false),
        ("PT1", false), ("PT1..5S", false), ("P٣D", false),
    ])
    func aDurationIsOneOfISO8601(_ text: String, _ isOne: Bool) { #expect(OrderText.isDuration(text) == isOne) }

    @Test(arguments: [
        ("https://a.example/b?c#d", true), ("http://a", true), ("mailto:a@b.example", true), ("myapp:open", true),
        ("", false), ("https://", false), ("https:///a", false), ("https:a", false), ("www.example.com", false),
        (":a", false), ("1a:b", false), ("https://a b", false), ("https://ä.example", false), ("https://a/\"", false),
        ("a:", false),
    ])
    func aLinkIsAnAbsoluteURI(_ text: String, _ isOne: Bool) { #expect(OrderText.isLink(text) == isOne) }

    @Test(arguments: [
        ("1", true), ("19.99", true), ("-5", true), ("0.5", true), ("", false), ("-", false), ("1.", false),
        (".5", false),
        ("1,5", false), ("1e3", false), ("+1", false), ("1.2.3", false), (" 1", false), ("٣", false),
    ])
    func anAmountIsAPlainDecimal(_ text: String, _ isOne: Bool) { #expect(OrderText.isAmount(text) == isOne) }
}

@Suite struct StringsFileTests {
    @Test func keysAreReadDespiteCommentsAndSpaces() throws {
        let text = "// one\n/* two\n*/\"A\"=\"a\";\"B \\\"b\\\"\"  =\n\"\\\\ \\n;/*\" ;\n\n\"\" = \"\";// end"
        let file = try StringsFile(Array(text.utf8))
        #expect(file.keys == ["A", "B \"b\"", ""])
        #expect(!file.isWronglyEncoded)
        #expect(try StringsFile([]).keys == [])
        #expect(try StringsFile([0xEF, 0xBB, 0xBF] + Array(text.utf8)).keys == file.keys)
    }

    @Test func utf16IsReadInBothByteOrders() throws {
        let units = Array(PackageFixture.germanStrings.utf16)
        let big: [UInt8] = [0xFE, 0xFF] + units.flatMap { [UInt8($0 >> 8), UInt8(truncatingIfNeeded: $0)] }
        let small: [UInt8] = [0xFF, 0xFE] + units.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        for bytes in [big, small] {
            let file = try StringsFile(bytes)
            #expect(file.keys == ["CONTAINS_NUTS", "WAITS"])
            #expect(!file.isWronglyEncoded)
        }
        #expect(try StringsFile(Array(PackageFixture.germanStrings.utf8)).isWronglyEncoded)
    }

    @Test(arguments: [
        ("\"A\"", 1, "'='"), ("\"A\" = ", 1, "a value"), ("A = \"a\";", 1, "a key"), ("\n\"A\" = \"a\"", 2, "';'"),
        ("\"A\" = \"a\";\n\n/* never", 3, "comment"), ("\"A\" = \"a;\n\n", 1, "not closed"), ("\"A\\", 1, "not closed"),
        ("\"A\" = \"a\";;", 1, "a key"), ("/", 1, "a key"),
    ])
    func aMistakeIsNamedByItsLine(_ text: String, _ line: Int, _ what: String) {
        let fault = #expect(throws: StringsFile.Fault.self) { try StringsFile(Array(text.utf8)) }
        #expect(
            fault?.line == line,
            "\(fault as Any)")
        #expect(
            fault?.message.contains(what) == true,
            "\(fault as Any)")
        #expect(
            fault?.isEncoding == false,
            "\(fault as Any)")
    }

    @Test(arguments: [[0xFF, 0xFE, 0x41], [0xFE, 0xFF, 0xD8, 0x00], [0x41, 0x00], [0x41, 0xFF]] as [[UInt8]])
    func undecodableBytesAreAnEncodingFault(_ bytes: [UInt8]) {
        #expect(throws: StringsFile.Fault.self) { try StringsFile(bytes) }
        #expect((try? StringsFile(bytes)) == nil)
    }
}
