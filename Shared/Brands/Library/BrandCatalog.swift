import Model
import Packaging
import Tokens

/// Decides which brands to load and which to drop when the brands' directory is scanned, without reading a file.
///
/// - A folder is loaded when it looks different from the last attempt and has looked the same twice in a row: copying
///   files may not be finished after the first.
/// - A brand that fails keeps its last good version, and is retried when its files change, and every minute: a
///   certificate may not be valid yet.
/// - A folder must be missing twice in a row to be dropped, and the last ones are never dropped: a directory without
///   any brand is one that is not mounted.
struct BrandCatalog {
    private struct Entry {
        var brand: Brand?
        var failure: BrandFailure?
        /// The fingerprint of the folder when it was last loaded, and the time.
        var attempt: (fingerprint: BrandFingerprint, epochSeconds: Int64)?
        /// The fingerprint at the last scan.
        var seen: BrandFingerprint?
        var isMissing = false
        /// The part of brand.json that counts while there is no brand.
        var declaration: BrandFile.Declaration?
    }

    /// The seconds after a failure when a brand is retried though its files look the same.
    static let retrySeconds: Int64 = 60

    private var entries: [String: Entry] = [:]
    private var isEmptyKnown = false

    /// The usable brands.
    var brands: Brands { Brands(self.entries.values.compactMap(\.brand)) }

    /// The present failures, sorted by folder.
    var failures: [BrandFailure] {
        self.entries.sorted { precedes($0.key, $1.key) }.compactMap(\.value.failure)
    }

    /// The secrets of brands that never loaded and have their own.
    var declaredSecrets: [OrderTypeIdentifier: TokenSecrets] {
        var secrets: [OrderTypeIdentifier: TokenSecrets] = [:]
        for entry in self.entries.values where entry.brand == nil {
            if let declaration = entry.declaration { secrets[declaration.orderType] = declaration.tokenSecrets }
        }
        return secrets
    }

    /// Processes the result of a scan.
    ///
    /// - Parameters:
    ///   - found: the fingerprint of each folder, by its name; empty also if the directory cannot be read.
    ///   - isForced: true if an operator has declared the files complete.
    /// - Returns: the folders to load, sorted, and the events.
    mutating func look(
        _ found: [String: BrandFingerprint], isForced: Bool, nowEpochSeconds now: Int64
    ) -> (load: [String], events: [BrandEvent]) {
        guard !found.isEmpty else {
            defer { self.isEmptyKnown = true }
            return ([], self.isEmptyKnown ? [] : [.directoryEmpty])
        }
        self.isEmptyKnown = false
        var events: [BrandEvent] = []
        for (folder, entry) in self.entries where found[folder] == nil {
            if entry.isMissing || isForced {
                self.entries[folder] = nil
                if let brand = entry.brand { events.append(.removed(brand.orderType)) }
            } else {
                self.entries[folder]?.isMissing = true
            }
        }
        var load: [String] = []
        for (folder, fingerprint) in found.sorted(by: { precedes($0.key, $1.key) }) {
            var entry = self.entries[folder] ?? Entry()
            let isSettled = entry.seen == fingerprint || isForced
            entry.seen = fingerprint
            entry.isMissing = false
            self.entries[folder] = entry
            if let attempt = entry.attempt, attempt.fingerprint == fingerprint {
                guard entry.failure != nil else { continue }
                let isDue = now - attempt.epochSeconds >= Self.retrySeconds || now < attempt.epochSeconds
                guard isDue || isForced else { continue }
            }
            if isSettled { load.append(folder) }
        }
        return (load, events)
    }

    /// Processes the result of loading a folder.
    ///
    /// - Parameters:
    ///   - before: the folder's fingerprint before it was read.
    ///   - after: its fingerprint after that. If they differ, the content may be a mixture of both and is discarded.
    ///   - declaration: the part of brand.json that counts if the rest cannot be used.
    mutating func receive(
        _ result: Result<Brand, BrandError>, of folder: String, before: BrandFingerprint, after: BrandFingerprint,
        declaration: BrandFile.Declaration?, nowEpochSeconds now: Int64
    ) -> [BrandEvent] {
        guard var entry = self.entries[folder], before == after else { return [] }
        defer { self.entries[folder] = entry }
        entry.attempt = (before, now)
        entry.declaration = declaration
        let old = entry.brand
        let error: BrandError
        switch result {
        case .success(let brand):
            guard let other = self.holder(of: brand.orderType, besides: folder) else {
                entry.brand = brand
                entry.failure = nil
                guard let old else { return [.added(brand.orderType)] }
                return old.orderType == brand.orderType
                    ? [.changed(brand.orderType)] : [.removed(old.orderType), .added(brand.orderType)]
            }
            error = BrandError(
                .configuration,
                "\(folder): \(other) has the order type \(brand.orderType.rawValue) already; remove one")
        case .failure(let failure): error = failure
        }
        let failure = BrandFailure(
            folder: folder, orderType: old?.orderType ?? declaration?.orderType, error: error, isKept: old != nil)
        defer { entry.failure = failure }
        return entry.failure == failure ? [] : [.failed(failure)]
    }

    private func holder(of orderType: OrderTypeIdentifier, besides folder: String) -> String? {
        self.entries.first { $0.key != folder && $0.value.brand?.orderType == orderType }?.key
    }
}
