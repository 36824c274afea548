import Model
import Packaging
import Tokens

/// The brands of a directory: those in use, and the failures of the others.
struct BrandCatalog {
    /// The seconds after a failure when a brand is retried though its files look the same.
    static let retrySeconds: Int64 = 60

    private var folders = FolderCatalog<Brand, BrandError>(retrySeconds: Self.retrySeconds)
    /// The part of each brand.json that counts while there is no brand, as it was last readable.
    private var declarations: [String: BrandFile.Declaration] = [:]

    /// The usable brands.
    var brands: Brands { Brands(Array(self.folders.items.values)) }

    /// The present failures, sorted by folder.
    var failures: [BrandFailure] {
        self.folders.failures.sorted { precedes($0.key, $1.key) }.map { self.failure($0.key, $0.value) }
    }

    /// The secrets of brands that never loaded and have their own.
    var declaredSecrets: [OrderTypeIdentifier: TokenSecrets] {
        let brands = self.folders.items
        var secrets: [OrderTypeIdentifier: TokenSecrets] = [:]
        for (folder, declaration) in self.declarations where brands[folder] == nil {
            secrets[declaration.orderType] = declaration.tokenSecrets
        }
        return secrets
    }

    /// Scans a directory and loads the changes. Blocks, since it reads files.
    ///
    /// - Parameter isForced: true if an operator has declared the files complete.
    mutating func scan(
        _ directory: String, webServiceURL: String, isForced: Bool, nowEpochSeconds now: Int64
    ) -> [BrandEvent] {
        let names = ((try? BrandDirectory.names(in: directory)) ?? []).filter {
            BrandDirectory.isFolder("\(directory)/\($0)")
        }
        var declarations = self.declarations
        let events = self.folders.scan(directory, folders: names, isForced: isForced, nowEpochSeconds: now) {
            folder, brands in
            let path = "\(directory)/\(folder)"
            declarations[folder] = BrandFile.declaration(in: path) ?? declarations[folder]
            return Result { () throws(BrandError) in
                let brand = try Brand.load(directory: path, webServiceURL: webServiceURL, nowEpochSeconds: now)
                try Self.refuseTwin(of: brand, folder, brands)
                return brand
            }
        }
        self.declarations = declarations.filter { names.contains($0.key) || self.folders.items[$0.key] != nil }
        return events.flatMap { self.events($0) }
    }

    /// Refuses a brand whose order type another folder has.
    private static func refuseTwin(
        of brand: Brand, _ folder: String, _ brands: [String: Brand]
    ) throws(BrandError) {
        guard let twin = brands.first(where: { $0.key != folder && $0.value.orderType == brand.orderType }) else {
            return
        }
        throw BrandError(
            .configuration, "\(folder): \(twin.key) has the order type \(brand.orderType.rawValue) already; remove one")
    }

    private func failure(_ folder: String, _ error: BrandError) -> BrandFailure {
        let kept = self.folders.items[folder]?.orderType
        return BrandFailure(
            folder: folder, orderType: kept ?? self.declarations[folder]?.orderType, error: error, isKept: kept != nil)
    }

    private func events(_ event: FolderCatalog<Brand, BrandError>.Event) -> [BrandEvent] {
        switch event {
        case .loaded(_, let brand, nil): [.added(brand.orderType)]
        case .loaded(_, let brand, let former?) where former.orderType == brand.orderType: [.changed(brand.orderType)]
        case .loaded(_, let brand, let former?): [.removed(former.orderType), .added(brand.orderType)]
        case .removed(_, let brand): brand.map { [.removed($0.orderType)] } ?? []
        case .failed(let folder, let error): [.failed(self.failure(folder, error))]
        case .empty: [.directoryEmpty]
        }
    }
}
