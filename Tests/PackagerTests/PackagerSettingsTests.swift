import Foundation
import Operations
import TestKit
import Testing

@testable import Packager

@Suite struct PackagerSettingsTests {
    /// The keys that all services read.
    private static func common() throws -> [String] {
        let settings = try Settings(environment: [:])
        _ = try CommonSettings(settings)
        return settings.effective.map(\.key.rawValue)
    }

    /// Returns the settings with these values and the required ones, and the keys that were not given.
    private func settings(
        _ environment: [String: String]
    ) throws -> (own: PackagerSettings, defaults: [(key: String, value: String)], read: [String]) {
        let directory = try TemporaryDirectory("packager-settings")
        let all = [
            "WAYBILL_BRANDS": try BrandFixture.shared.get().write(into: directory),
            "WAYBILL_TOKEN_SECRETS": try directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
        ].merging(environment) { $1 }
        let settings = try Settings(environment: all)
        let own = try PackagerSettings(settings, common: try CommonSettings(settings))
        let effective = settings.effective.map { ($0.key.rawValue, $0.value) }
        return (own, effective.filter { all[$0.0] == nil }, effective.map(\.0))
    }

    @Test func packagerDefaultsMatchTheDocumentation() throws {
        let (settings, defaults, read) = try self.settings([:])
        #expect(settings.unknownOrderPatience == .seconds(60))
        #expect(defaults.contains { $0.key == "WAYBILL_UNKNOWN_ORDER_SECONDS" })
        #expect(defaults.contains { $0.key == "WAYBILL_COLD_AFTER_DAYS" })
        let differences = try ConfigurationTable().differences(from: defaults)
        #expect(differences == [])
        #expect(
            try ConfigurationTable().differences(ofUseBy: "packager", read: read, common: try Self.common()) == [])
    }

    @Test func theTableSaysWhatTheRoleIngestReads() throws {
        let directory = try TemporaryDirectory("ingest-settings")
        try FileManager.default.createDirectory(
            atPath: directory.path("sources/shop"), withIntermediateDirectories: true)
        _ = try directory.write("sources/shop/map.lua", "function map() end")
        _ = try directory.write(
            "sources/shop/source.json",
            #"{"topics": ["t"], "format": "json", "name": "/t", "orderType": "order.com.example.shop"}"#)
        let settings = try Settings(environment: ["WAYBILL_SOURCES": directory.path("sources")])
        _ = try IngestSettings(settings, common: try CommonSettings(settings), program: SourceFixture.program)
        let used = try ConfigurationTable().differences(
            ofUseBy: "ingest", read: settings.effective.map(\.key.rawValue), common: try Self.common())
        #expect(used == [])
    }

    @Test(arguments: [
        ("WAYBILL_COLD_AFTER_DAYS", "0"), ("WAYBILL_UNKNOWN_ORDER_SECONDS", "-1"),
        ("WAYBILL_UNKNOWN_ORDER_SECONDS", "601"),
        ("WAYBILL_UNKNOWN_ORDER_SECONDS", "1m"), ("WAYBILL_PICTURE_ROOTS", "/nowhere/roots.pem"),
        ("WAYBILL_DEVELOPMENT_PICTURE_ADDRESSES", "127.0.0.1,cdn.example"),
    ])
    func aBadValueNamesKeyAndValue(key: String, value: String) throws {
        let error = #expect(throws: SettingsError.self) { _ = try self.settings([key: value]) }
        #expect(error?.description.hasPrefix("\(key)=\(value): ") == true, "\(error?.description ?? "")")
    }
}
