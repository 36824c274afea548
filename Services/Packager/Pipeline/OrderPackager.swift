import Brands
import Kafka
import Model
import Packaging
import Store
import Synchronization
import Tokens

/// Makes packages of one brand's orders, on any number of threads at once.
struct OrderPackager: Sendable {
    private let rules: BrandRules
    let fold: OrderFold
    private let build: Build
    /// Nil in tests with a `build` of their own, which sign each package.
    private let builder: PackageBuilder?
    private let signer: String
    /// The most bytes of order.json that are not the document's.
    private let ruleBytes: Int
    /// The brand's assets as ready ZIP entries, by digest.
    let entries: [AssetDigest: [UInt8]]

    /// The rule by which renewed orders get new tokens; if nil, orders are renewed only for changes of the brand.
    var tokenRenewal: TokenRenewal?
    /// The hosts that pictures of the brand's orders may come from.
    let pictureHosts: PictureHosts
    /// The rules for the own documents of the brand's orders.
    let documents: DocumentRules

    /// Fetched pictures by their identities, and the own documents of one order by their identifiers.
    typealias Shown = [String: PictureFile]
    /// Packages an order.json with pictures, signed at the given time.
    typealias Build = @Sendable (JSON, Shown, _ signingEpochSeconds: Int64) throws(PackagingError) -> OrderPackage

    init(_ brand: Brand, tokens: TokenAuthority) {
        let builder = PackageBuilder(brand)
        self.init(brand, tokens: tokens, builder: builder) { (order, pictures, seconds) throws(PackagingError) in
            try builder.build(order, pictures: pictures, signingEpochSeconds: seconds)
        }
    }

    /// - Parameter build: for tests, which need packages that cannot be built.
    init(_ brand: Brand, tokens: TokenAuthority, builder: PackageBuilder? = nil, build: @escaping Build) {
        self.rules = brand.rules
        self.builder = builder
        self.signer = brand.signer
        let defaults = [brand.rules.merchant, brand.rules.returnInfo]
        self.ruleBytes = defaults.reduce(2048) { $0 + ($1?.serialized.count ?? 0) }
        self.fold = OrderFold(
            rules: brand.rules, keepsToken: { tokens.keeps($0, $1, $2) }, deriveToken: { tokens.token(for: $0) })
        self.build = build
        self.pictureHosts = brand.pictureHosts
        self.documents = brand.documents
        self.entries = Dictionary(brand.assets.values.map { ($0.entryDigest, $0.entry) }) { first, _ in first }
    }

    /// Folds the changes of one order into one new state.
    ///
    /// - Parameters:
    ///   - recordBytes: the most bytes of the order's record.
    ///   - leaves: returns true if a new version may be left without a package. If it is, the draft has its record.
    /// - Returns: a draft to be packaged, with the pictures that its package needs, or one without a package.
    func fold(
        _ order: BatchOrder, stored: OrderStore.StoredOrder?, nowEpochSeconds: Int64, recordBytes: Int = .max,
        leaves: (FoldResult) -> Bool = { _ in false }
    ) -> OrderDraft {
        var fold = OrderFold.Unfinished(of: stored?.state)
        self.fold(order.changes[...], into: &fold, nowEpochSeconds: nowEpochSeconds)
        let result = self.fold.result(of: fold, nowEpochSeconds: nowEpochSeconds)
        if leaves(result), let draft = self.unpackaged(order, stored, result, recordBytes: recordBytes) { return draft }
        return OrderDraft(order, stored: stored, folded: result, pictures: self.pictures(of: result))
    }

    private func fold(
        _ changes: ArraySlice<BatchOrder.Change>, into fold: inout OrderFold.Unfinished, nowEpochSeconds: Int64
    ) {
        for (record, change) in changes {
            self.fold.fold(change, at: ChangePosition(record), into: &fold, nowEpochSeconds: nowEpochSeconds)
        }
    }

    /// Returns the reasons why the changes that wait for an order make none; the sentence of Design §4.2 if no change
    /// could.
    func lacks(
        _ order: BatchOrder, stored: OrderStore.StoredOrder?, nowEpochSeconds: Int64
    ) -> [String] {
        let draft = self.fold(order, stored: stored, nowEpochSeconds: nowEpochSeconds)
        guard !draft.exists, !draft.early.isEmpty else { return [] }
        let lacks = draft.result.lacks.map(\.withoutValue) + draft.result.withheld
        return lacks.isEmpty ? ["waybill.order.replaced or waybill.order.merged, which create the order"] : lacks
    }

    /// Returns descriptions of what a stored order has and its package does not show: elements of its sources that are
    /// not complete, and files.
    func hidden(_ state: OrderState, pictures: Shown, nowEpochSeconds: Int64) -> (elements: [String], files: [String]) {
        let order = state.orderJSON(rules: self.rules)
        return (
            self.fold.withheld(in: state, nowEpochSeconds: nowEpochSeconds),
            self.builder?.omittedFiles(of: order, pictures: pictures) ?? []
        )
    }

    /// Returns the pictures and own documents that an order names by URLs from which the brand allows fetching, each
    /// URL once for either.
    func pictures(of state: OrderState) -> [OrderPicture] {
        guard !self.pictureHosts.isEmpty || !self.documents.hosts.isEmpty else { return [] }
        let order = state.orderJSON(rules: self.rules)
        return self.pictureHosts.urls(in: order).map { url in
            let key = PictureKey(orderType: state.key.orderType, url: self.pictureHosts.identity(of: url))
            return OrderPicture(url: url, key: key)
        }
            + self.documents.hosts.urls(in: order, ofPictures: false).map { url in
                OrderPicture(url: url, key: PictureKey(of: state.key, document: self.documents.identifier(of: url)))
            }
    }

    /// Returns the place at which an order shows a picture; nil if it does not show it.
    func place(of picture: PictureKey, in state: OrderState) -> PictureFit.Place? {
        self.pictureHosts.place(of: picture.url, in: state.orderJSON(rules: self.rules))
    }

    private func pictures(of result: FoldResult) -> [OrderPicture] {
        guard result.effect == .changed, let state = result.state else { return [] }
        return self.pictures(of: state)
    }

    /// Packages a folded order.
    ///
    /// Conflation: any number of changes cost one signature. A package or a record that is too large is the fault of
    /// some change, so the changes are then folded in parts and those at fault are refused.
    /// - Parameter recordBytes: the most bytes of the order's record.
    /// - Throws: `PackagingError` `.signing`, which is no change's fault.
    func package(
        _ draft: OrderDraft, pictures: Shown = [:], recordBytes: Int = .max, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderDraft {
        guard draft.result.effect == .changed, let state = draft.state else { return draft }
        let packaged: OrderDraft
        do {
            let package = try self.package(state, pictures, nowEpochSeconds: nowEpochSeconds)
            packaged = OrderDraft(
                draft.order, stored: draft.stored, folded: draft.result, pictures: draft.pictures, package: package)
        } catch {
            guard error.code == .tooLarge else { throw error }
            packaged = try self.packageSingly(draft, pictures, nil, nowEpochSeconds: nowEpochSeconds)
        }
        guard let record = packaged.record, record.count > recordBytes else { return packaged }
        return try self.packageSingly(draft, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
    }

    /// Returns a folded order with its new version and without a package; nil if it has to be packaged to see that all
    /// of its changes can be.
    private func unpackaged(
        _ order: BatchOrder, _ stored: OrderStore.StoredOrder?, _ result: FoldResult, recordBytes: Int
    ) -> OrderDraft? {
        guard result.effect == .changed, let state = result.state, let builder = self.builder else { return nil }
        let record = OrderRecord(state, content: nil).encoded
        guard record.count + Self.contentBytes <= recordBytes,
            builder.fits(bytes: record.count + self.ruleBytes, state.orderJSON(rules: self.rules))
        else { return nil }
        return OrderDraft(
            order, stored: stored, result: result, pictures: [], content: .version(nil), record: record)
    }

    /// The most bytes that a package adds to its order's record, so that one which is made later can be published.
    private static let contentBytes = 64

    /// Packages a state, signed now and not at the modification second, which may be in the future: versions are at
    /// least a second apart.
    private func package(
        _ state: OrderState, _ pictures: Shown, _ recordBytes: Int? = nil, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderPackage {
        let package = try self.build(state.orderJSON(rules: self.rules), pictures, nowEpochSeconds)
        guard let recordBytes else { return package }
        let size = OrderRecord(state, content: package.contentDigest).encoded.count
        guard size > recordBytes else { return package }
        throw PackagingError(
            .tooLarge,
            "its record would have \(size) bytes and Kafka's topic of orders allows \(recordBytes); make the order "
                + "smaller, or raise max.message.bytes of the topic and message.max.bytes of the packagers")
    }

    /// Brings a stored order up to date with its brand: changes nothing, signs it again under the same version if
    /// nothing changed for devices, or makes a new version.
    ///
    /// - Parameters:
    ///   - draft: the draft of an order as it was read; a removed one stays as it is.
    ///   - pictures: the fetched pictures.
    ///   - evenIfCurrent: true to sign an up-to-date order too.
    /// - Throws: `PackagingError` `.signing`, which is not the order's fault.
    func renew(
        _ draft: OrderDraft, pictures: Shown = [:], evenIfCurrent: Bool = false, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderDraft {
        guard let stored = draft.stored, !stored.state.isRemoved else { return draft }
        // It will be made with the brand as that is when somebody asks for it.
        guard stored.isPackaged || !stored.content.isEmpty || self.tokenRenewal != nil else { return draft }
        do {
            if let renewal = self.tokenRenewal {
                guard let token = renewal.token(for: stored.state) else { return draft }
                return try self.nextVersion(draft, stored, token, pictures, nowEpochSeconds: nowEpochSeconds)
            }
            // A restored order whose pictures or documents were lost with its package cannot be compared.
            guard stored.isPackaged || draft.pictures.allSatisfy({ pictures[$0.key.url] != nil }) else { return draft }
            let order = stored.state.orderJSON(rules: self.rules)
            let digest = self.builder?.contentDigest(of: order, pictures: pictures)
            let isSigned = stored.signer == self.signer && !evenIfCurrent
            if digest == stored.content, isSigned || !stored.isPackaged { return draft }
            if digest == nil || digest == stored.content {
                let package = try self.build(order, pictures, nowEpochSeconds)
                if package.contentDigest == stored.content {
                    if package.signer == stored.signer, !evenIfCurrent { return draft }
                    return OrderDraft(
                        draft.order, stored: stored, result: draft.result, pictures: draft.pictures, package: package,
                        content: .signature(OrderStore.StoredPackage(package)))
                }
            }
            return try self.nextVersion(draft, stored, stored.state.token, pictures, nowEpochSeconds: nowEpochSeconds)
        } catch {
            guard error.code == .tooLarge else { throw error }
            return draft.refused(error.message)
        }
    }

    /// Makes the package of a stored order that has none and was asked for.
    ///
    /// - Throws: `PackagingError` `.signing`.
    func answer(
        _ draft: OrderDraft, pictures: Shown = [:], nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderDraft {
        guard let stored = draft.stored, !stored.state.isRemoved, !stored.isPackaged else { return draft }
        do {
            let package = try self.build(stored.state.orderJSON(rules: self.rules), pictures, nowEpochSeconds)
            return OrderDraft(
                draft.order, stored: stored, result: draft.result, pictures: draft.pictures, package: package,
                content: .requested(OrderStore.StoredPackage(package), epochSeconds: nowEpochSeconds))
        } catch {
            guard error.code == .tooLarge else { throw error }
            return draft.refused(error.message)
        }
    }

    /// Returns the next version of a stored order, with its document unchanged.
    private func nextVersion(
        _ draft: OrderDraft, _ stored: OrderStore.StoredOrder, _ token: AuthenticationToken, _ pictures: Shown,
        nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderDraft {
        var next = OrderFold.renewed(stored.state, nowEpochSeconds: nowEpochSeconds)
        next.token = token
        let renewed = next.orderJSON(rules: self.rules)
        // The brand supplies part of the order, and a changed brand may supply something invalid.
        let violations = OrderValidator.violations(
            in: renewed, allowUnknownMembers: self.rules.passUnknownMembers, nowEpochSeconds: nowEpochSeconds)
        guard violations.isEmpty else {
            let shown = violations.map(\.description).listed(most: 3, separator: "; ")
            return draft.refused("with the current brand the order would not be valid: \(shown)")
        }
        let package = try self.build(renewed, pictures, nowEpochSeconds)
        return OrderDraft(
            draft.order, stored: stored, result: FoldResult(state: next, effect: .changed, outcomes: []),
            pictures: draft.pictures, package: package, content: .unpublishedVersion(OrderStore.StoredPackage(package)))
    }

    /// Finds the changes that make a package too large and packages the others.
    ///
    /// Folds several changes at a time, doubling their number if they fit and halving it if they do not. So a few bad
    /// ones among many cost a few packages each, and many bad ones cost one package each.
    private func packageSingly(
        _ draft: OrderDraft, _ pictures: Shown, _ recordBytes: Int?, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderDraft {
        let (stored, changes) = (draft.stored, draft.order.changes)
        // Each change is folded on top of the good ones before it, not all of these again.
        var good = OrderFold.Unfinished(of: stored?.state)
        var refusals: [Int: ChangeFault] = [:]
        var done = FoldResult(state: stored?.state, effect: .none, outcomes: [])
        var package: OrderPackage?
        var index = 0
        // All of them together are known not to fit.
        var step = max(1, changes.count / 2)
        while index < changes.count {
            let next = changes[index..<min(index + step, changes.count)]
            var fold = good
            self.fold(next, into: &fold, nowEpochSeconds: nowEpochSeconds)
            let result = self.fold.result(of: fold, nowEpochSeconds: nowEpochSeconds)
            do {
                var made: OrderPackage?
                if result.effect == .changed, let state = result.state {
                    made = try self.package(state, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
                }
                (done, package) = (result, made)
                good = fold
                index = next.endIndex
                step = min(step * 2, changes.count)
            } catch {
                guard error.code == .tooLarge else { throw error }
                if next.count == 1 {
                    let reason = "the order cannot be packaged: \(error)"
                    refusals[index] = ChangeFault(code: .invalidPackage, reason: reason)
                    index += 1
                }
                step = max(1, next.count / 2)
            }
        }
        var outcomes = done.outcomes[...]
        done.outcomes = changes.indices.map { index in
            refusals[index].map { .refused($0) } ?? outcomes.popFirst() ?? .unchanged
        }
        return OrderDraft(
            draft.order, stored: stored, folded: done, pictures: self.pictures(of: done), package: package)
    }
}

extension [OrderTypeIdentifier: OrderPackager] {
    /// Returns the assets and certificates of the orders' packages, each once.
    func assets(of drafts: [OrderDraft]) -> [(digest: String, entry: [UInt8])] {
        var entries: [AssetDigest: [UInt8]] = [:]
        for draft in drafts {
            guard let package = draft.package, let packager = self[draft.key.orderType] else { continue }
            for digest in package.assets where entries[digest] == nil { entries[digest] = packager.entries[digest] }
            entries[package.certificates.digest] = package.certificates.bytes
        }
        return entries.map { ($0.key.rawValue, $0.value) }
    }
}

/// The packagers of all brands, kept in step with them.
///
/// A batch takes them once, so that all of it is made with the same brands.
final class OrderPackagers: Sendable {
    private struct Kept {
        let brand: Brand
        let packager: OrderPackager
        /// The number of the update that made it.
        let generation: Int
    }

    private struct State {
        var kept: [OrderTypeIdentifier: Kept] = [:]
        /// The number of updates.
        var generation = 0

        mutating func follow(_ brands: Brands, _ tokens: TokenAuthority) {
            self.generation += 1
            let old = self.kept
            self.kept = [:]
            for type in brands.orderTypes {
                guard let brand = brands[type] else { continue }
                if let kept = old[type], kept.brand.isSameLoading(as: brand) {
                    self.kept[type] = kept
                } else {
                    self.kept[type] = Kept(
                        brand: brand, packager: OrderPackager(brand, tokens: tokens), generation: self.generation)
                }
            }
        }
    }

    private let tokens: TokenAuthority
    private let state: Mutex<State>

    init(_ brands: Brands, tokens: TokenAuthority) {
        self.tokens = tokens
        var state = State()
        state.follow(brands, tokens)
        self.state = Mutex(state)
    }

    /// The packagers as they are now.
    var current: [OrderTypeIdentifier: OrderPackager] { self.state.withLock { $0.kept.mapValues(\.packager) } }

    /// The order types that have a packager now, each with another number whenever its brand was loaded.
    var generations: [OrderTypeIdentifier: Int] { self.state.withLock { $0.kept.mapValues(\.generation) } }

    /// Follows the brands; a packager whose brand is unchanged is kept, with what it remembers.
    func update(_ brands: Brands) {
        var state = self.state.withLock { $0 }
        state.follow(brands, self.tokens)
        self.state.withLock { [state] in $0 = state }
    }
}

/// Decides which stored orders get a new token: those whose token was minted under a secret other than the one that
/// mints, and on request those that brought one.
struct TokenRenewal: Sendable {
    /// The secrets of the brand.
    let secrets: TokenSecrets
    /// Secrets that were removed from all files of the services.
    var withdrawn: TokenSecrets?
    /// True to replace also tokens that were minted under none of these secrets.
    var includesOthers = false
    /// True to replace each token that was minted, also one of the present secret.
    var endsLinks = false

    /// - Returns: nil for an order that keeps its token.
    func token(for state: OrderState) -> AuthenticationToken? {
        let old = state.token.rawValue
        if self.endsLinks {
            return self.secrets.isToken(old, of: state.key) ? self.secrets.renewedToken(for: state.key) : nil
        }
        let place = self.secrets.place(ofToken: old, of: state.key)
        guard place != 0 else { return nil }
        let isMinted = place != nil || self.withdrawn?.isToken(old, of: state.key) ?? false
        return isMinted || self.includesOthers ? self.secrets.token(for: state.key) : nil
    }

    /// The name of the run, by which the next run continues it if it has the same purpose.
    var purpose: String {
        let withdrawn = self.withdrawn.map { ["without"] + $0.fingerprints } ?? []
        return (["tokens"] + self.secrets.fingerprints + withdrawn + (self.includesOthers ? ["all"] : []))
            .joined(separator: " ")
    }
}
