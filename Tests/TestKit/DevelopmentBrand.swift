import Foundation

/// A brand's directory for development: certificates, `brand.json` and the files that the example orders name.
public enum DevelopmentBrand {
    /// The pictures and documents of `Shared/Model/Schemas/examples` and of the replay.
    public static let assets: [(name: String, content: [UInt8])] =
        ["logo", "lamp", "throw", "plum", "poppy", "provider-light", "provider-dark"].enumerated().map {
            ("\($1).png", SampleFile.png(seed: UInt8($0 + 1)))
        }
        + ["trail5", "shell"].enumerated().map { ("\($1).jpg", SampleFile.jpeg(seed: UInt8($0 * 9))) }
        + ["receipt", "receipt-purchase", "receipt-refund", "return-label"].map {
            ("\($0).pdf", SampleFile.pdf(text: $0))
        }

    /// Makes the directory, or overwrites it.
    ///
    /// The brand has no default `merchant`, so an order without one is refused, as it would be at a marketplace.
    /// - Parameters:
    ///   - certificates: the certificates of the same order type.
    public static func make(
        in directory: String, orderType: String, certificates: DevelopmentCertificates
    ) throws {
        let files = FileManager.default
        let assets = "\(directory)/assets"
        try files.createDirectory(atPath: assets, withIntermediateDirectories: true)
        for (name, content) in self.assets { try Data(content).write(to: URL(filePath: "\(assets)/\(name)")) }
        let parts = [
            (certificates.certificate, "certificate.pem"), (certificates.key, "key.pem"),
            (certificates.intermediate, "intermediate.pem"),
        ]
        for (source, name) in parts {
            let target = "\(directory)/\(name)"
            if files.fileExists(atPath: target) { try files.removeItem(atPath: target) }
            try files.copyItem(atPath: source, toPath: target)
        }
        let brand = """
            {
              "orderTypeIdentifier": "\(orderType)",
              "certificate": "certificate.pem",
              "key": "key.pem",
              "intermediate": "intermediate.pem",
              "push": { "authentication": "certificate" }
            }

            """
        try Data(brand.utf8).write(to: URL(filePath: "\(directory)/brand.json"))
    }
}
