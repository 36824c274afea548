import Kafka
import Model
import Packaging
import Store

/// Makes packages of one brand's orders, on any number of threads at once.
struct OrderPackager: Sendable {
    private let rules: BrandRules
    private let fold: OrderFold
    private let build: Build
    private let rebuild: Rebuild?
    private let digest: Digest?
    private let signer: String
    /// The brand's assets as ready ZIP entries, by digest.
    let entries: [AssetDigest: [UInt8]]

    /// Gives orders new tokens when they are renewed; nil changes only what the brand changes.
    var tokenRenewal: TokenRenewal?
    /// The hosts that pictures of the brand's orders may come from.
    let pictureHosts: PictureHosts

    /// Pictures that were fetched, by what identifies them.
    typealias Shown = [String: PictureFile]
    /// Packages an order.json with some pictures, signed at a moment.
    typealias Build = @Sendable (JSON, Shown, _ signingEpochSeconds: Int64) throws(PackagingError) -> OrderPackage
    /// Packages as `Build`, without a signature where the seal of the package as it was still holds.
    typealias Rebuild = @Sendable (JSON, Shown, PackageSeal, Int64) throws(PackagingError) -> OrderPackage
    /// The `OrderPackage.contentDigest` that `Build` would give, without a signature.
    typealias Digest = @Sendable (JSON, Shown) -> String

    init(_ brand: Brand, tokens: TokenAuthority) {
        let builder = PackageBuilder(brand)
        self.init(
            brand, tokens: tokens, digest: { builder.contentDigest(of: $0, pictures: $1) },
            rebuild: { (order, pictures, seal, seconds) throws(PackagingError) in
                try builder.build(order, pictures: pictures, seal: seal, signingEpochSeconds: seconds)
            },
            build: { (order, pictures, seconds) throws(PackagingError) in
                try builder.build(order, pictures: pictures, signingEpochSeconds: seconds)
            })
    }

    /// - Parameters:
    ///   - digest: nil when only building tells.
    ///   - rebuild: nil when each package is signed.
    ///   - build: for tests, which need packages that cannot be built.
    init(
        _ brand: Brand, tokens: TokenAuthority, digest: Digest? = nil, rebuild: Rebuild? = nil, build: @escaping Build
    ) {
        self.rules = brand.rules
        self.digest = digest
        self.signer = brand.signer
        self.fold = OrderFold(rules: brand.rules) { tokens.token(for: $0) }
        self.build = build
        self.rebuild = rebuild
        self.pictureHosts = brand.pictureHosts
        self.entries = Dictionary(brand.assets.values.map { ($0.entryDigest, $0.entry) }) { first, _ in first }
    }

    /// Folds the changes of one order into one new state, and says which pictures its package wants.
    func fold(
        _ key: OrderKey, stored: OrderStore.StoredOrder?, changes: [(ChangePosition, OrderChange)],
        nowEpochSeconds: Int64
    ) -> FoldedOrder {
        let result = self.fold.fold(stored?.state, changes: changes, nowEpochSeconds: nowEpochSeconds)
        let urls = result.effect == .changed ? result.state.map(self.pictureURLs) ?? [] : []
        return FoldedOrder(
            key: key, stored: stored, changes: changes, result: result, pictureURLs: urls,
            pictureKeys: urls.map { self.pictureKey($0, of: key) })
    }

    /// The URLs of pictures in an order that the brand allows to be fetched, each once.
    func pictureURLs(of state: OrderState) -> [String] {
        self.pictureHosts.isEmpty ? [] : self.pictureHosts.urls(in: state.orderJSON(rules: self.rules))
    }

    /// The key of a picture that an order names.
    func pictureKey(_ url: String, of order: OrderKey) -> PictureKey {
        PictureKey(orderType: order.orderType, url: self.pictureHosts.identity(of: url))
    }

    /// Packages what was folded.
    ///
    /// Conflation: however many changes, one signature. A package that is too large is the fault of some change, so the
    /// changes are then taken one by one and the guilty ones refused.
    /// - Throws: `PackagingError` `.signing`, which is no change's fault.
    func work(
        on folded: FoldedOrder, pictures: Shown = [:], nowEpochSeconds: Int64
    ) throws(PackagingError) -> PackagedChange {
        try self.work(on: folded, pictures, nil, nowEpochSeconds: nowEpochSeconds)
    }

    /// The same for changes of which some make an order whose record Kafka would not take: those are refused.
    ///
    /// - Parameter recordBytes: most bytes of the record.
    func work(
        on folded: FoldedOrder, pictures: Shown, recordBytes: Int, nowEpochSeconds: Int64
    ) throws(PackagingError) -> PackagedChange {
        try self.work(on: folded, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
    }

    private func work(
        on folded: FoldedOrder, _ pictures: Shown, _ recordBytes: Int?, nowEpochSeconds: Int64
    ) throws(PackagingError) -> PackagedChange {
        let (key, stored, result) = (folded.key, folded.stored, folded.result)
        guard result.effect == .changed, let state = result.state else {
            return PackagedChange(key: key, stored: stored, result: result, package: nil)
        }
        do {
            let package = try self.package(state, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
            return PackagedChange(key: key, stored: stored, result: result, package: package)
        } catch {
            guard error.code == .tooLarge else { throw error }
            return try self.workSingly(on: folded, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
        }
    }

    /// Signed now and not at the modification second, which may lie ahead: versions are a second apart at least.
    private func package(
        _ state: OrderState, _ pictures: Shown, _ recordBytes: Int? = nil, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderPackage {
        let package = try self.build(state.orderJSON(rules: self.rules), pictures, nowEpochSeconds)
        guard let recordBytes else { return package }
        let size = OrderRecord(state, package).encoded.count
        guard size > recordBytes else { return package }
        throw PackagingError(
            .tooLarge,
            "its record would have \(size) bytes and Kafka's topic of orders takes \(recordBytes); make the order "
                + "smaller, or raise max.message.bytes of the topic and message.max.bytes of the packagers")
    }

    /// The package of an order that was lost, as it was published; nil if it would be too large now.
    ///
    /// - Parameter seal: of the package as it was published; nil if that is not known.
    /// - Throws: `PackagingError` `.signing`.
    func restored(
        _ state: OrderState, pictures: Shown, seal: PackageSeal?, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderPackage? {
        do {
            guard let seal, let rebuild = self.rebuild else {
                return try self.package(state, pictures, nowEpochSeconds: nowEpochSeconds)
            }
            return try rebuild(state.orderJSON(rules: self.rules), pictures, seal, nowEpochSeconds)
        } catch {
            guard error.code == .tooLarge else { throw error }
            return nil
        }
    }

    /// Finds the action that makes a stored order match what the brand would package at present.
    ///
    /// - Parameters:
    ///   - stored: not removed.
    ///   - pictures: those that were fetched.
    ///   - evenIfCurrent: also sign an order that gains nothing from it.
    /// - Throws: `PackagingError` `.signing`, which is not the order's fault.
    func renew(
        _ stored: OrderStore.StoredOrder, pictures: Shown = [:], evenIfCurrent: Bool = false, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderRenewal {
        if let renewal = self.tokenRenewal {
            guard let token = renewal.token(for: stored.state) else { return .current }
            return try self.version(of: stored, token: token, pictures: pictures, nowEpochSeconds: nowEpochSeconds)
        }
        let order = stored.state.orderJSON(rules: self.rules)
        let digest = self.digest?(order, pictures)
        if digest == stored.content, stored.signer == self.signer, !evenIfCurrent { return .current }
        do {
            if digest == nil || digest == stored.content {
                let package = try self.build(order, pictures, nowEpochSeconds)
                if package.contentDigest == stored.content {
                    return package.signer == stored.signer && !evenIfCurrent ? .current : .signature(package)
                }
            }
        } catch {
            guard error.code == .tooLarge else { throw error }
            return .refused(error.message)
        }
        return try self.version(
            of: stored, token: stored.state.token, pictures: pictures, nowEpochSeconds: nowEpochSeconds)
    }

    /// The next version of a stored order, whose document stays as it is.
    private func version(
        of stored: OrderStore.StoredOrder, token: AuthenticationToken, pictures: Shown, nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderRenewal {
        do {
            var next = OrderFold.renewed(stored.state, nowEpochSeconds: nowEpochSeconds)
            next.token = token
            let renewed = next.orderJSON(rules: self.rules)
            // The brand gives part of the order, and a brand that was changed may give something wrong.
            let violations = OrderValidator.violations(
                in: renewed, allowUnknownMembers: self.rules.passUnknownMembers, nowEpochSeconds: nowEpochSeconds)
            guard violations.isEmpty else {
                let shown = violations.prefix(3).map(\.description).joined(separator: "; ")
                return .refused("with its brand as it is now the order would not be valid: \(shown)")
            }
            return .version(next, try self.build(renewed, pictures, nowEpochSeconds))
        } catch {
            guard error.code == .tooLarge else { throw error }
            return .refused(error.message)
        }
    }

    /// Finds the changes that make a package too large and packages the others.
    ///
    /// Takes as many changes at once as fit, doubling what fitted and halving what did not, so that a few bad ones
    /// among many cost a few packages each and many bad ones one package each.
    private func workSingly(
        on folded: FoldedOrder, _ pictures: Shown, _ recordBytes: Int?, nowEpochSeconds: Int64
    ) throws(PackagingError) -> PackagedChange {
        let (key, stored, changes) = (folded.key, folded.stored, folded.changes)
        // Each change is folded on top of the good ones before it, not all of these again.
        var good = OrderFold.Unfinished(of: stored?.state)
        var refusals: [Int: ChangeFault] = [:]
        var work = PackagedChange(
            key: key, stored: stored, state: stored?.state, effect: .none, package: nil, outcomes: [])
        var index = 0
        // All of them at once are known not to fit.
        var step = max(1, changes.count / 2)
        while index < changes.count {
            let next = changes[index..<min(index + step, changes.count)]
            var fold = good
            self.fold.fold(next, into: &fold, nowEpochSeconds: nowEpochSeconds)
            let result = self.fold.result(of: fold, nowEpochSeconds: nowEpochSeconds)
            do {
                var package: OrderPackage?
                if result.effect == .changed, let state = result.state {
                    package = try self.package(state, pictures, recordBytes, nowEpochSeconds: nowEpochSeconds)
                }
                work = PackagedChange(key: key, stored: stored, result: result, package: package)
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
        var outcomes = work.outcomes[...]
        work.outcomes = changes.indices.map { index in
            refusals[index].map { .refused($0) } ?? outcomes.popFirst() ?? .unchanged
        }
        return work
    }
}
