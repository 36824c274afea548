import Model
import Redis
import Testing

@testable import Operations

/// The parts of the check before a start that ask nobody.
@Suite struct PreflightPartsTests {
    @Test func oldLibrariesAreRisks() {
        let version = ProgramVersion(
            "a",
            libraries: [("librdkafka", "1.9.2"), ("hiredis", "0.13.3"), ("OpenSSL", "3.0.17"), ("libcurl", "7.88.1")])
        let found = LibraryMinimum.findings(version)
        #expect(found.map(\.text).map { $0.prefix { $0 != " " } } == ["librdkafka", "hiredis"])
        #expect(found.allSatisfy { $0.severity == .warning && !$0.fix.isEmpty })
    }

    @Test func clocksMayDifferByAFewSeconds() {
        func found(_ redis: Int64) -> [PreflightFinding] { RedisPreflight.clock(ofRedis: redis, nowEpochSeconds: 1000) }
        #expect(found(1005).isEmpty)
        #expect(found(994).map(\.severity) == [.warning])
        #expect(found(1061).map(\.severity) == [.fault])
        #expect(found(1061)[0].text.contains("61 s ahead"))
        #expect(found(.min).map(\.severity) == [.fault])
    }

    @Test func aRedisWithoutLimitsCopiesAndFilesIsARisk() {
        let text =
            "redis_version:7.0.15\nmaxmemory:0\nmaxmemory_policy:noeviction\nrole:master\nconnected_slaves:0\n"
            + "aof_enabled:0\nmaster_replid:abc\n"
        let found = RedisPreflight.judge([("a:1", RedisServerInformation(text))])
        #expect(found.map(\.severity) == [.warning, .warning, .warning])
        let good =
            "redis_version:7.0.15\nmaxmemory:1000\nmaxmemory_policy:noeviction\nrole:master\n"
            + "connected_slaves:1\naof_enabled:1\nmaster_replid:abc\n"
        #expect(RedisPreflight.judge([("a:1", RedisServerInformation(good))]).isEmpty)
    }

    @Test func rightsAreWrittenInThreeForms() {
        let roles = KafkaRole.all(
            Topics(prefix: "shop.", orderChanges: ["erp", "^erp-.*"]),
            sources: ["oms", "^wms\\.[a-z]+$", "^(a|b)$"], webhooks: ["oms"])
        let user = AccessListFormat.StrimziUser(cluster: "main", authentication: .tls)
        let commands = AccessListFormat.commands.text(roles, strimzi: user)
        #expect(
            commands.contains(
                "--allow-principal User:waybill-packager --operation Read --operation DescribeConfigs --topic erp\n"))
        #expect(commands.contains("--operation Read --group shop.waybill-packager\n"))
        #expect(commands.contains("User:waybill-tools --operation Describe --group shop.waybill-packager\n"))
        let prefixed = "--resource-pattern-type prefixed\n"
        for line in [
            "User:waybill-packager --operation Read --topic erp- \(prefixed)",
            "User:waybill-ingest --operation Read --operation DescribeConfigs --topic oms\n",
            "User:waybill-ingest --operation Read --topic wms. \(prefixed)",
            "User:waybill-ingest --operation Write --operation DescribeConfigs --topic erp\n",
            "User:waybill-ingest --operation Write --operation DescribeConfigs --topic shop.dead-letters\n",
            "User:waybill-ingest --operation Read --group shop.waybill-ingest\n",
            "User:waybill-tools --operation Read --topic wms. \(prefixed)",
            "User:waybill-checkout --operation Write --operation DescribeConfigs --topic oms\n",
            "# waybill-ingest: grant Read on the topics that ^(a|b)$ matches\n",
        ] { #expect(commands.contains(line), "\(line)") }
        #expect(!commands.contains("--topic ^"))
        let strimzi = AccessListFormat.strimzi.text(roles, strimzi: user)
        #expect(
            strimzi.contains(
                "kind: KafkaUser\nmetadata:\n  name: waybill-gateway\n  labels: {strimzi.io/cluster: main}\nspec:\n"
                    + "  authentication: {type: tls}\n"))
        #expect(strimzi.contains("resource: {type: topic, name: shop.registrations, patternType: literal}\n"))
        #expect(strimzi.contains("operations: [Read, Write, DescribeConfigs]"))
        #expect(
            strimzi.contains("{type: topic, name: wms., patternType: prefix}\n        operations: [Read]\n"))
        let terraform = AccessListFormat.terraform.text(roles, strimzi: user)
        #expect(terraform.contains("resource \"kafka_acl\" \"waybill_pusher_group_shop_waybill_pusher_read\" {"))
        #expect(terraform.contains("\"waybill_ingest_topic_prefixed_wms__read\" {"))
        #expect(terraform.contains("resource_pattern_type_filter = \"Prefixed\"\n"))
        // One resource for each operation.
        #expect(terraform.split(separator: "resource \"kafka_acl\"").count > 20)
    }

    @Test(arguments: [
        ("orders", nil), ("^.*", nil), ("^a|b", nil), ("^shop-orders_1$", "shop-orders_1"),
        ("^eu\\.shop\\..+", "eu.shop."),
        ("^ab*", "a"), ("^ab{2}", "a"), ("^a?", nil), ("^shop.orders", "shop"), ("^a\\.?b", "a"), ("^a+", "a"),
    ])
    func aPatternHasAPrefix(pattern: String, prefix: String?) {
        #expect(KafkaRole.prefix(of: pattern) == prefix)
    }
}
