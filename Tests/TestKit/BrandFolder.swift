import Foundation
public import Model

/// A brand's directory with certificates, which a test may damage.
public struct BrandFolder {
    /// 2025-03-05T16:02:11Z
    public static let moment: Int64 = 1_741_190_531
    public static let orderType = "order.com.example.shop"
    public static let webServiceURL = "https://wallet.example.com/apple"

    public let path: String
    public let certificates: DevelopmentCertificates

    public init(path: String, certificates: DevelopmentCertificates) {
        self.path = path
        self.certificates = certificates
    }

    /// Makes the directory, passes it to `body` and removes it.
    /// - Parameters:
    ///   - options: the order type's certificate, issued for this directory; nil copies a common one.
    ///   - hasOwnAuthority: true if root and intermediate are made for this directory as well, which requires
    ///     `options`.
    @discardableResult
    public static func with<Result>(
        _ options: DevelopmentCertificates.Options? = nil, hasOwnAuthority: Bool = false,
        _ body: (BrandFolder) throws -> Result
    ) throws -> Result {
        let path = FileManager.default.temporaryDirectory.path + "/waybill-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        if !hasOwnAuthority { _ = try DevelopmentCertificates.copy(to: path) }
        if var options {
            options.authority = hasOwnAuthority ? nil : path
            _ = try DevelopmentCertificates.make(in: path, options)
        }
        let folder = BrandFolder(path: path, certificates: DevelopmentCertificates(directory: path))
        try folder.write("brand.json", text: Self.configuration(options?.orderType ?? Self.orderType).text)
        return try body(folder)
    }

    /// Returns a `brand.json` with all required members.
    public static func configuration(_ orderType: String = Self.orderType) -> JSON {
        [
            "orderTypeIdentifier": .string(orderType), "certificate": "certificate.pem", "key": "key.pem",
            "intermediate": "intermediate.pem", "push": ["authentication": "certificate"],
        ]
    }

    public func write(_ name: String, _ content: [UInt8]) throws {
        let url = URL(fileURLWithPath: "\(self.path)/\(name)")
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(content).write(to: url)
    }

    public func write(_ name: String, text: String) throws { try self.write(name, Array(text.utf8)) }

    /// Writes valid files, whose content is derived from their names.
    public func writeAssets(_ names: [String]) throws {
        for name in names { try self.write("assets/\(name)", Self.content(of: name)) }
    }

    /// Returns the content of a small file that is valid for the extension of its name.
    public static func content(of name: String) -> [UInt8] {
        let seed = name.utf8.reduce(0) { $0 &* 31 &+ $1 }
        return switch name.split(separator: ".").last {
        case "png": SampleFile.png(seed: seed, side: 64)
        case "jpg", "jpeg": SampleFile.jpeg(seed: seed)
        case "pdf": SampleFile.pdf(text: name)
        case "strings": Array("\"TITLE\" = \"\(name)\";\n".utf8)
        default: Array(repeatElement("content of \(name) ", count: 50).joined().utf8)
        }
    }

    /// Runs a Python program and returns its output, parsed as JSON.
    public static func python(_ script: String, _ arguments: String...) throws -> JSON {
        try JSON(parsing: Array(Program.run("python3", ["-c", script] + arguments).utf8))
    }
}
