import Glibc
public import Model
import Synchronization
public import Tokens

/// The present brands of a service: loaded at the start, watched while it runs.
///
/// Each batch or request takes a snapshot and uses it to the end; a scan replaces all brands together.
public final class BrandLibrary: Sendable {
    private struct Current {
        var brands: Brands
        /// Order types whose brand was never loaded here, though its brand.json names them.
        var declared: Set<OrderTypeIdentifier>
        /// The secrets of those that have their own.
        var declaredSecrets: [OrderTypeIdentifier: TokenSecrets] = [:]
        var failures: [BrandFailure]
    }

    /// The most scans at the start until a brand, or the error of one, is found.
    private static let startLooks = 5

    /// Nil for brands that never change.
    private let directory: String?
    private let webServiceURL: String
    private let current: Mutex<Current>
    /// Held during a scan, which reads files; only another scan waits for it.
    private let catalog: Mutex<BrandCatalog>

    /// Loads all brands of a directory, which has a folder for each.
    ///
    /// A brand that fails does not keep the others from starting: an outage of one retailer must not become one of all.
    /// - Parameter isEmptyAllowed: true to begin without a brand.
    /// - Throws: `BrandError` if none can be loaded, or the web service's address is wrong.
    public init(
        directory: String, webServiceURL: String, nowEpochSeconds: Int64? = nil, isEmptyAllowed: Bool = false
    ) throws(BrandError) {
        try Brand.checkWebServiceURL(webServiceURL)
        self.directory = directory
        self.webServiceURL = webServiceURL
        var catalog = BrandCatalog()
        var current = Self.current(catalog)
        // A result whose files changed while they were read is discarded, and they are read again.
        for _ in 0..<Self.startLooks where current.brands.orderTypes.isEmpty && current.failures.isEmpty {
            _ = catalog.scan(
                directory, webServiceURL: webServiceURL, isForced: true,
                nowEpochSeconds: nowEpochSeconds ?? Int64(time(nil)))
            current = Self.current(catalog)
        }
        if current.brands.orderTypes.isEmpty, !isEmptyAllowed {
            _ = try BrandDirectory.names(in: directory)
            throw current.failures.first?.error
                ?? BrandError(.file, "\(directory): there is no brand; create a directory with a brand.json")
        }
        self.current = Mutex(current)
        self.catalog = Mutex(catalog)
    }

    /// Returns the paths of private keys and token secrets that a directory's brands name, as far as these can be read.
    public static func keyFiles(in directory: String) -> [String] {
        let names = (try? BrandDirectory.names(in: directory)) ?? []
        return names.flatMap { name -> [String] in
            let folder = "\(directory)/\(name)"
            guard let bytes = try? BrandDirectory(path: folder).file("brand.json"), let file = try? BrandFile(bytes)
            else { return [] }
            var files = [file.key]
            if case .token(let key, _, _) = file.push { files.append(key) }
            if let secrets = file.tokenSecrets { files.append(secrets) }
            return files.map { "\(folder)/\($0)" }
        }
    }

    /// Makes a library of brands that never change.
    public init(_ brands: Brands) {
        self.directory = nil
        self.webServiceURL = ""
        self.current = Mutex(Current(brands: brands, declared: [], failures: []))
        self.catalog = Mutex(BrandCatalog())
    }

    /// The present brands.
    public var brands: Brands { self.current.withLock { $0.brands } }

    /// The brands that cannot be loaded at the moment, with or without an earlier version in use.
    public var failures: [BrandFailure] { self.current.withLock { $0.failures } }

    /// Returns true if orders of a type are ours: their brand is loaded, or exists but cannot be loaded at the moment.
    /// Existing packages can still be served then.
    public func serves(_ orderType: OrderTypeIdentifier) -> Bool {
        self.current.withLock { $0.brands.serves(orderType) || $0.declared.contains(orderType) }
    }

    /// Returns the secrets that a brand has to itself; nil if it shares them, and for order types that are not ours.
    func tokenSecrets(of type: OrderTypeIdentifier) -> TokenSecrets? {
        self.current.withLock { current in
            guard let brand = current.brands[type] else { return current.declaredSecrets[type] }
            return brand.tokenSecrets
        }
    }

    /// Scans the directory and loads the changes.
    ///
    /// Blocks, since it reads files: call it on a thread that may block.
    /// - Parameter isForced: true to include changes that were only just made.
    /// - Returns: the events; empty if nothing has changed.
    public func look(isForced: Bool, nowEpochSeconds: Int64) -> [BrandEvent] {
        guard let directory = self.directory else { return [] }
        return self.catalog.withLock { catalog in
            let events = catalog.scan(
                directory, webServiceURL: self.webServiceURL, isForced: isForced, nowEpochSeconds: nowEpochSeconds)
            let current = Self.current(catalog)
            self.current.withLock { $0 = current }
            return events
        }
    }

    private static func current(_ catalog: BrandCatalog) -> Current {
        Current(
            brands: catalog.brands, declared: Set(catalog.failures.compactMap(\.orderType)),
            declaredSecrets: catalog.declaredSecrets, failures: catalog.failures)
    }
}

/// A result of scanning the brands' directory, for the log and for the users of the brands.
public enum BrandEvent: Hashable, Sendable {
    /// A new brand.
    case added(OrderTypeIdentifier)
    /// A brand that has changed.
    case changed(OrderTypeIdentifier)
    /// A brand whose folder was removed, or belongs to another order type.
    case removed(OrderTypeIdentifier)
    /// A brand cannot be loaded; reported once for each reason.
    case failed(BrandFailure)
    /// The directory of all brands is missing or empty; all brands are kept.
    case directoryEmpty
}

/// A brand that cannot be loaded.
public struct BrandFailure: Hashable, Sendable {
    /// The folder's name.
    public let folder: String
    /// The order type of the last good version, or else the one that brand.json names; nil without either.
    public let orderType: OrderTypeIdentifier?
    /// The reason.
    public let error: BrandError
    /// True if an earlier version stays in use.
    public let isKept: Bool

    /// The brand's label in metrics.
    public var label: String { self.orderType?.rawValue ?? self.folder }
}

extension TokenAuthority {
    /// Mints with the secrets of one file, and with those that brands name in their brand.json.
    ///
    /// - Parameters:
    ///   - path: the path of the file of shared secrets.
    ///   - content: the content of the file, just read.
    /// - Throws: `TokenSecrets.Failure`.
    public convenience init(path: String, content: [UInt8], brands: BrandLibrary) throws(TokenSecrets.Failure) {
        try self.init(
            content: content,
            read: { () throws(TokenSecrets.Failure) in
                do throws(BrandError) {
                    return try BrandDirectory.secrets(path)
                } catch {
                    throw TokenSecrets.Failure(message: error.message)
                }
            }, ownSecrets: { brands.tokenSecrets(of: $0) })
    }
}
