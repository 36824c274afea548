import Kafka
import Model
import Packaging
import Store

/// The changes of one order, folded and packaged: what is to be written and said.
struct OrderWork: Sendable {
    let key: OrderKey
    /// What was read; nil for a new order.
    let stored: OrderStore.StoredOrder?
    /// The state after the changes; nil if there is none still.
    var state: OrderState?
    var effect: FoldResult.Effect
    /// Present when the effect is `.changed`.
    var package: OrderPackage?
    /// One per change.
    var outcomes: [ChangeOutcome]

    /// The revision that the write expects in Redis.
    var expectedRevision: Int64 { self.stored?.revision ?? 0 }

    /// A change that was seen before may be one whose publication was lost with its worker: it is published again.
    var wasRedelivered: Bool {
        self.outcomes.contains { if case .skipped(.redelivered) = $0 { true } else { false } }
    }
}

/// What makes packages of one brand's orders, on any number of threads at once.
struct OrderWorkshop: Sendable {
    private let rules: BrandRules
    private let fold: OrderFold
    private let build: Build
    /// The brand's assets as ready ZIP entries, by digest.
    let entries: [AssetDigest: [UInt8]]

    /// Packages an order.json, signed at a moment.
    typealias Build = @Sendable (JSON, _ signingEpochSeconds: Int64) throws(PackagingError) -> OrderPackage

    init(_ brand: Brand, secrets: TokenSecrets) {
        let builder = PackageBuilder(brand)
        self.init(brand, secrets: secrets) { (order, seconds) throws(PackagingError) in
            try builder.build(order, signingEpochSeconds: seconds)
        }
    }

    /// - Parameter build: for tests, which need packages that cannot be built.
    init(_ brand: Brand, secrets: TokenSecrets, build: @escaping Build) {
        self.rules = brand.rules
        self.fold = OrderFold(rules: brand.rules) { secrets.token(for: $0) }
        self.build = build
        self.entries = Dictionary(brand.assets.values.map { ($0.entryDigest, $0.entry) }) { first, _ in first }
    }

    /// Folds the changes of one order into one new state and packages that.
    ///
    /// Conflation: however many changes, one signature. A package that is too large is the fault of some change, so the
    /// changes are then taken one by one and the guilty ones refused.
    /// - Throws: `PackagingError` `.signing`, which is no change's fault.
    func work(
        on key: OrderKey, stored: OrderStore.StoredOrder?, changes: [(ChangePosition, OrderChange)],
        nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderWork {
        let result = self.fold.fold(stored?.state, changes: changes, nowEpochSeconds: nowEpochSeconds)
        guard result.effect == .changed, let state = result.state else {
            return OrderWork(key: key, stored: stored, result: result, package: nil)
        }
        do {
            let package = try self.package(state, nowEpochSeconds: nowEpochSeconds)
            return OrderWork(key: key, stored: stored, result: result, package: package)
        } catch {
            guard error.code == .tooLarge else { throw error }
            return try self.workSingly(on: key, stored: stored, changes: changes, nowEpochSeconds: nowEpochSeconds)
        }
    }

    /// Signed now and not at the modification second, which may lie ahead: versions are a second apart at least.
    private func package(_ state: OrderState, nowEpochSeconds: Int64) throws(PackagingError) -> OrderPackage {
        try self.build(state.orderJSON(rules: self.rules), nowEpochSeconds)
    }

    private func workSingly(
        on key: OrderKey, stored: OrderStore.StoredOrder?, changes: [(ChangePosition, OrderChange)],
        nowEpochSeconds: Int64
    ) throws(PackagingError) -> OrderWork {
        var good: [(ChangePosition, OrderChange)] = []
        var refusals: [Int: ChangeFault] = [:]
        var work = OrderWork(
            key: key, stored: stored, state: stored?.state, effect: .none, package: nil, outcomes: [])
        for (index, change) in changes.enumerated() {
            let result = self.fold.fold(stored?.state, changes: good + [change], nowEpochSeconds: nowEpochSeconds)
            guard result.effect == .changed, let state = result.state else {
                good.append(change)
                work = OrderWork(key: key, stored: stored, result: result, package: nil)
                continue
            }
            do {
                let package = try self.package(state, nowEpochSeconds: nowEpochSeconds)
                work = OrderWork(key: key, stored: stored, result: result, package: package)
                good.append(change)
            } catch {
                guard error.code == .tooLarge else { throw error }
                refusals[index] = ChangeFault(code: .invalidPackage, reason: "the order cannot be packaged: \(error)")
            }
        }
        var outcomes = work.outcomes[...]
        work.outcomes = changes.indices.map { index in
            refusals[index].map { .refused($0) } ?? outcomes.popFirst() ?? .unchanged
        }
        return work
    }
}

extension OrderWork {
    init(key: OrderKey, stored: OrderStore.StoredOrder?, result: FoldResult, package: OrderPackage?) {
        self.init(
            key: key, stored: stored, state: result.state, effect: result.effect, package: package,
            outcomes: result.outcomes)
    }
}
