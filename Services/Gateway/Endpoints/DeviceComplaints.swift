import CoreMetrics
import FoundationEssentials
import Model
import Synchronization

/// The thing in a package that a device complains of.
///
/// Wallet's words for orders are not documented; these are the words of its errors about passes, and what Wallet Orders
/// §2 and §3 call the parts of a package. Source: Wallet Orders §1.2e
enum DeviceComplaint: String, CaseIterable {
    /// The signature, a certificate, or a digest of the manifest.
    case signature
    case localization
    case picture
    /// The document, or what the archive has to contain.
    case format
    /// Anything else: Wallet also reports that a server did not answer.
    case other

    private static let words: [(complaint: Self, words: [String])] = [
        (.signature, ["signature", "certificate", "manifest", "signing", "digest", "hash mismatch"]),
        (.localization, [".strings", "lproj", "localiz", "localis"]),
        (.picture, ["image", "logo", ".png", ".jpg", ".jpeg", "icon"]),
        (
            .format,
            [
                "json", "invalid data", "schema", "decod", "pars", "does not contain", "missing", "may not match",
                "format",
            ]
        ),
    ]

    /// - Parameter text: in lower case.
    init(_ text: String) {
        self = Self.words.first { $0.words.contains { text.contains($0) } }?.complaint ?? .other
    }
}

/// Counts what devices complain of, by the brand that they name. No text is kept.
///
/// Thread: any. Bounded by the configured brands and the complaints.
final class DeviceComplaints: Sendable {
    /// The label of messages that name no configured brand.
    static let unknownBrand = "unknown"
    /// Most Unicode scalars of a message that are looked at.
    private static let characterLimit = 2000

    private struct Series: Hashable {
        let brand: String
        let complaint: DeviceComplaint
    }

    private let factory: any MetricsFactory
    private let counters = Mutex<[Series: Counter]>([:])

    init(factory: any MetricsFactory) { self.factory = factory }

    /// - Parameter brands: those that are configured.
    func count(_ message: String, brands: [OrderTypeIdentifier]) {
        let text = String(message.unicodeScalars.prefix(Self.characterLimit)).lowercased()
        let series = Series(brand: Self.brand(in: text, of: brands), complaint: DeviceComplaint(text))
        self.counters.withLock { counters in
            if let counter = counters[series] { return counter }
            let counter = Counter(
                label: "waybill_device_complaints_total",
                dimensions: [("brand", series.brand), ("class", series.complaint.rawValue)], factory: self.factory)
            counters[series] = counter
            return counter
        }.increment()
    }

    /// Returns the brand that a text names: of two, one of which begins with the other, the longer one.
    private static func brand(in text: String, of brands: [OrderTypeIdentifier]) -> String {
        brands.map(\.rawValue).filter { text.contains($0.lowercased()) }.max { $0.utf8.count < $1.utf8.count }
            ?? Self.unknownBrand
    }
}
