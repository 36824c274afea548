import Glibc
public import Model
import Synchronization
import Tokens

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
    /// - Throws: `BrandError` if none can be loaded, or the web service's address is wrong.
    public init(directory: String, webServiceURL: String, nowEpochSeconds: Int64? = nil) throws(BrandError) {
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
        if current.brands.orderTypes.isEmpty {
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
