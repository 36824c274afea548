// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: unsafe code is marked, C types stay internal, a warning is an error.
let house: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
]

/// A C library from the system, imported by the one target that owns it.
func c(_ name: String, path: String? = nil) -> Target { .systemLibrary(name: name, path: path ?? "Shared/\(name)") }

/// Files of a folder in a program, by `files.c` beside them.
func embedded(_ name: String, path: String) -> Target { .target(name: name, path: path, sources: ["files.c"]) }

/// The commit that is built, where `swift build` is told; letters and digits only, since it becomes C code.
let commit = Context.environment["WAYBILL_COMMIT"].flatMap { text in
    !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } ? text : nil
}

func shared(_ name: String, _ uses: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(name: name, dependencies: uses, path: "Shared/\(name)", exclude: exclude, swiftSettings: house)
}

func service(_ name: String, _ uses: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name, dependencies: uses, path: "Services/\(name)", exclude: ["README.md"], swiftSettings: house)
}

func tests(_ name: String, _ uses: [Target.Dependency] = []) -> Target {
    .testTarget(name: name, dependencies: uses, path: "Tests/\(name)", swiftSettings: house)
}

extension Target.Dependency {
    static let nioCore = Self.product(name: "NIOCore", package: "swift-nio")
    static let nioPosix = Self.product(name: "NIOPosix", package: "swift-nio")
    static let nioEmbedded = Self.product(name: "NIOEmbedded", package: "swift-nio")
    static let nioHTTP1 = Self.product(name: "NIOHTTP1", package: "swift-nio")
    static let nioSSL = Self.product(name: "NIOSSL", package: "swift-nio-ssl")
    static let nioTLS = Self.product(name: "NIOTLS", package: "swift-nio")
    static let nioHTTP2 = Self.product(name: "NIOHTTP2", package: "swift-nio-http2")
    static let nioHPACK = Self.product(name: "NIOHPACK", package: "swift-nio-http2")
    static let unixSignals = Self.product(name: "UnixSignals", package: "swift-service-lifecycle")
    static let logging = Self.product(name: "Logging", package: "swift-log")
    static let coreMetrics = Self.product(name: "CoreMetrics", package: "swift-metrics")
    static let serviceLifecycle = Self.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
    static let serviceLifecycleTestKit = Self.product(
        name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle")
    static let configuration = Self.product(name: "Configuration", package: "swift-configuration")
    static let argumentParser = Self.product(name: "ArgumentParser", package: "swift-argument-parser")
    static let heap = Self.product(name: "HeapModule", package: "swift-collections")
    static let deque = Self.product(name: "DequeModule", package: "swift-collections")
}

let package = Package(
    name: "waybill",
    products: [
        .executable(name: "waybill-gateway", targets: ["Gateway"]),
        .executable(name: "waybill-packager", targets: ["Packager"]),
        .executable(name: "waybill-pusher", targets: ["PusherProgram"]),
        .executable(name: "waybill-dev", targets: ["Devkit"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
        // Its JSON files need Foundation, and with it 41 MB of ICU.
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
    ],
    targets: [
        c("CRDKafka"), c("CHiredis"), c("CCrypto"), c("CNGHTTP2"), c("CDeflate"), c("CCurl"),
        c("CRDKafkaMock", path: "Tests/CRDKafkaMock"),
        .target(name: "CBindPort", path: "Tests/CBindPort"),
        .target(
            name: "CPictureSamples", path: "Tests/CPictureSamples",
            linkerSettings: ["jpeg", "png16", "webp", "z"].map { .linkedLibrary($0) }),
        embedded("CBrowserFiles", path: "Shared/Browser/Files"),
        embedded("CPlaygroundFiles", path: "Tests/Devkit/Playground/Page"),

        .target(
            name: "CCommit", path: "Shared/Model/Commit",
            cSettings: [.define("WAYBILL_COMMIT", to: "\"\(commit ?? "unknown")\"")]),
        shared("Model", ["CCommit"], exclude: ["README.md", "Schemas", "Commit"]),
        shared("Kafka", ["CRDKafka"], exclude: ["README.md"]),
        shared(
            "Redis", ["CHiredis", "Cryptography", .nioCore, .nioPosix, .nioSSL, .deque], exclude: ["README.md"]),
        shared("Cryptography", ["CCrypto"], exclude: ["README.md"]),
        shared("HTTP2", ["CNGHTTP2", .nioCore], exclude: ["README.md"]),
        shared("Fetch", ["CCurl"], exclude: ["README.md"]),
        .target(name: "CLua", path: "Shared/Lua/Bridge", linkerSettings: [.linkedLibrary("lua5.4")]),
        shared("Lua", ["CLua", "Model"], exclude: ["README.md", "Bridge"]),
        .target(name: "CSandbox", path: "Shared/Sandbox/Bridge"),
        shared("Sandbox", ["CSandbox"], exclude: ["README.md", "Bridge"]),
        .target(
            name: "CPictures", path: "Shared/PictureFitting/Bridge",
            linkerSettings: ["jpeg", "png16", "webp", "webpdemux"].map { .linkedLibrary($0) }),
        shared("PictureFitting", ["Packaging", "CPictures"], exclude: ["README.md", "Bridge"]),
        shared("Browser", ["CBrowserFiles"], exclude: ["README.md", "Files"]),
        shared("Tokens", ["Model", "Cryptography"], exclude: ["README.md"]),
        shared("Packaging", ["Model", "Cryptography", "CDeflate"], exclude: ["README.md"]),
        shared("Store", ["Model", "Redis", "Cryptography", .nioCore], exclude: ["README.md"]),
        shared(
            "APNS", ["Model", "HTTP2", "Cryptography", .nioCore, .nioPosix, .nioSSL, .deque], exclude: ["README.md"]),
        shared(
            "Operations",
            [
                "Model", "Kafka", "Redis", "Cryptography", "Fetch", .nioCore, .nioPosix, .nioHTTP1, .logging,
                .coreMetrics, .serviceLifecycle, .unixSignals, .configuration, .argumentParser,
            ], exclude: ["README.md"]),
        shared(
            "Brands",
            [
                "Model", "Cryptography", "Packaging", "Tokens", "Operations", .nioPosix, .logging, .coreMetrics,
                .serviceLifecycle,
            ], exclude: ["README.md"]),

        shared(
            "Adoption", ["Model", "Redis", "Store", "Operations", .logging, .coreMetrics, .serviceLifecycle],
            exclude: ["README.md"]),
        shared(
            "HTTPServer",
            [
                "Model", "Fetch", "Operations", .nioCore, .nioPosix, .nioHTTP1, .nioHTTP2, .nioHPACK, .nioSSL, .nioTLS,
                .logging, .coreMetrics, .serviceLifecycle,
            ], exclude: ["README.md"]),

        .target(
            name: "Checkout",
            dependencies: [
                "HTTPServer", "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Browser", "Tokens", "Brands",
                "Store", "Adoption",
                "Operations", .nioCore, .nioPosix, .nioHTTP1, .nioSSL, .logging, .coreMetrics, .serviceLifecycle,
            ],
            path: "Services/Checkout", exclude: ["README.md"], swiftSettings: house),
        service(
            "Gateway",
            [
                "HTTPServer", "Checkout", "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Tokens", "Brands",
                "Store", "Adoption",
                "Operations", .nioCore, .nioHTTP1, .logging, .coreMetrics, .serviceLifecycle, .argumentParser,
            ]),
        service(
            "Packager",
            [
                "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Lua", "Sandbox", "Tokens", "Packaging",
                "PictureFitting", "Brands", "Store", "Adoption", "Operations", .nioCore, .nioPosix, .logging,
                .coreMetrics, .serviceLifecycle, .argumentParser,
            ]),
        .target(
            name: "Pusher",
            dependencies: [
                "Model", "Kafka", "Redis", "Cryptography", "Brands", "Store", "Adoption", "APNS", "Operations",
                .nioCore, .nioPosix, .logging, .coreMetrics, .serviceLifecycle, .argumentParser, .heap,
            ],
            path: "Services/Pusher", exclude: ["README.md", "Main"], swiftSettings: house),
        .executableTarget(
            name: "PusherProgram", dependencies: ["Pusher"], path: "Services/Pusher/Main", swiftSettings: house),

        .target(
            name: "TestKit",
            dependencies: [
                "CBindPort", "CCrypto", "CRDKafkaMock", "Model", "Kafka", "Redis", "Store", "Cryptography", .nioCore,
                .nioPosix, .nioHTTP1, .nioSSL, .nioHTTP2, .nioHPACK, .logging,
            ],
            path: "Tests/TestKit", swiftSettings: house),
        .executableTarget(
            name: "Devkit",
            dependencies: [
                "TestKit", "Pusher", "APNS", "Brands", "Operations", "Browser", "CPlaygroundFiles", "Model", "Kafka",
                "Packaging", "Redis", "Store", "Cryptography", .nioCore,
                .nioPosix, .nioHTTP1, .nioSSL, .argumentParser, .unixSignals,
            ],
            path: "Tests/Devkit", exclude: ["Playground/Page"], swiftSettings: house),

        .target(
            name: "PictureSamples", dependencies: ["CPictureSamples"], path: "Tests/PictureSamples",
            swiftSettings: house),
        .target(name: "TestTraits", dependencies: ["TestKit"], path: "Tests/TestTraits", swiftSettings: house),
        tests("ModelTests", ["Model", "TestKit", "TestTraits"]),
        tests("KafkaTests", ["Kafka", "TestKit", "TestTraits"]),
        tests("RedisTests", ["Redis", "TestKit", "TestTraits", .nioCore, .nioPosix, .nioEmbedded]),
        tests("CryptographyTests", ["Cryptography", "TestKit", "TestTraits"]),
        tests("HTTP2Tests", ["HTTP2", "TestKit", "TestTraits", .nioCore]),
        tests("FetchTests", ["Fetch", "TestKit", "TestTraits"]),
        tests("LuaTests", ["Lua", "Model", "TestKit"]),
        // A child that does what it likes.
        .executableTarget(
            name: "SandboxSubject", dependencies: ["Sandbox"], path: "Tests/SandboxSubject", swiftSettings: house),
        tests("SandboxTests", ["Sandbox", "SandboxSubject", "TestKit", "TestTraits"]),
        tests("PictureFittingTests", ["PictureFitting", "Packaging", "PictureSamples", "TestKit"]),
        tests("TokensTests", ["Tokens", "Model", "TestKit", "TestTraits"]),
        tests("PackagingTests", ["Packaging", "Brands", "Model", "Cryptography", "TestKit", "TestTraits"]),
        tests(
            "BrandsTests",
            [
                "Brands", "Tokens", "Packaging", "Operations", "Model", "Cryptography", "TestKit", "TestTraits",
                .coreMetrics,
            ]),
        tests(
            "AdoptionTests",
            [
                "Adoption", "Model", "Redis", "Store", "Operations", "TestKit", "TestTraits", .logging, .nioPosix,
                .serviceLifecycleTestKit,
            ]),
        tests("StoreTests", ["Store", "Model", "Redis", "TestKit", "TestTraits", .nioCore, .nioPosix]),
        tests(
            "APNSTests",
            [
                "APNS", "Model", "HTTP2", "Cryptography", "TestKit", "TestTraits", .nioCore, .nioPosix, .nioSSL,
                .nioHTTP2,
            ]),
        tests(
            "OperationsTests",
            [
                "Operations", "Kafka", "Redis", "Model", "TestKit", "TestTraits", .configuration, .coreMetrics,
                .logging, .serviceLifecycle, .serviceLifecycleTestKit, .nioCore, .nioPosix, .nioEmbedded, .nioHTTP1,
            ]),
        tests(
            "HTTPServerTests",
            [
                "HTTPServer", "Model", "Fetch", "Operations", "TestKit", "TestTraits", .logging, .serviceLifecycle,
                .serviceLifecycleTestKit, .nioCore, .nioPosix, .nioEmbedded, .nioHTTP1, .nioHPACK, .nioSSL,
                .coreMetrics,
            ]),
        tests(
            "GatewayTests",
            [
                "Gateway", "HTTPServer", "Model", "Store", "Adoption", "Redis", "Kafka", "Cryptography", "Tokens",
                "Brands",
                "Operations", "TestKit", "TestTraits", .logging, .serviceLifecycle, .serviceLifecycleTestKit, .nioCore,
                .nioPosix, .nioEmbedded, .nioHTTP1,
            ]),
        tests(
            "CheckoutTests",
            [
                "Checkout", "HTTPServer", "Gateway", "Model", "Store", "Redis", "Kafka", "Cryptography", "Fetch",
                "Tokens",
                "Operations", "TestKit", "TestTraits", .logging, .nioCore, .nioHTTP1, .coreMetrics,
            ]),
        tests(
            "PackagerTests",
            [
                "Packager", "Sandbox", "SandboxSubject", "Lua", "Model", "Store", "Redis", "Kafka", "Fetch", "Tokens",
                "Packaging", "PictureFitting", "PictureSamples", "Brands", "Operations",
                "Cryptography", "TestKit", "TestTraits", .nioCore, .nioPosix, .logging, .coreMetrics, .configuration,
                .serviceLifecycle,
                .serviceLifecycleTestKit,
            ]),
        tests(
            "PusherTests",
            [
                "Pusher", "Model", "Store", "Redis", "Kafka", "APNS", "Brands", "Operations", "TestKit", "TestTraits",
                .nioCore, .nioPosix, .logging, .coreMetrics, .configuration, .serviceLifecycle,
            ]),
        tests("BrowserTests", ["Browser"]),
        tests(
            "DevkitTests",
            [
                "Devkit", "APNS", "Model", "Kafka", "Cryptography", "Packaging", "Brands", "TestKit", "TestTraits",
                .nioHTTP1,
            ]),
        tests("TidyTests"),
    ]
)
