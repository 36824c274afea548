import CoreMetrics
public import Model
public import Operations
public import Redis
public import Store
import Synchronization

/// The counts of each brand's adoption in this process: for its metrics, and until `AdoptionReporter` adds it to
/// Redis.
///
/// Thread: any; a count costs one lock. Bounded by the brands, since callers count configured ones only.
public final class AdoptionTally: Sendable {
    /// Upper ends of the buckets for the time from a version's second to its fetch, in seconds: that second is whole.
    static let ageBounds: [Double] = [1, 2, 5, 10, 30, 60, 300, 1800, 7200, 43200, 86400]

    /// The figures of one brand.
    private struct Brand {
        let counters: [AdoptionFigure: Counter]
        let ages: DurationHistogram?
        /// By the places of `AdoptionFigure.allCases`, then of `AdoptionTotals.Level.allCases`.
        var amounts = [Int64](
            repeating: 0, count: AdoptionFigure.allCases.count + AdoptionTotals.Level.allCases.count)
    }

    private let factory: MetricsRegistry
    private let brands = Mutex<[OrderTypeIdentifier: Brand]>([:])

    public init(factory: MetricsRegistry) { self.factory = factory }

    /// - Returns: nil if adoption is not counted.
    public convenience init?(_ environment: ServiceEnvironment) {
        guard environment.common.topics.options.contains(.adoption) else { return nil }
        self.init(factory: environment.metrics)
    }

    /// Counts one of a figure other than `updated` and `prompt`.
    public func count(_ figure: AdoptionFigure, of type: OrderTypeIdentifier) {
        self.change(type) { brand in
            brand.amounts[figure.place] += 1
            return brand.counters[figure]
        }?.increment()
    }

    /// Counts the fetch of a version by a device that had an older one.
    ///
    /// - Parameter age: the seconds since the version's.
    public func countUpdate(of type: OrderTypeIdentifier, age: Int64) {
        let age = max(0, age)
        self.change(type) { brand in
            brand.amounts[AdoptionFigure.updated.place] += 1
            if age <= AdoptionFigure.promptSeconds { brand.amounts[AdoptionFigure.prompt.place] += 1 }
            return brand.ages
        }?.record(seconds: [Double(age)])
    }

    /// Notes a change of what is in Wallet.
    ///
    /// - Parameter isByCustomer: false if an order is no longer there, or is restored: then no customer did anything.
    public func note(_ change: Registrations.Change, of type: OrderTypeIdentifier, isByCustomer: Bool) {
        self.change(type) { brand in
            switch change {
            case .firstDevice: brand.amounts[AdoptionTotals.Level.orders.place] += 1
            case .lastDevice: brand.amounts[AdoptionTotals.Level.orders.place] -= 1
            case .firstOrder: brand.amounts[AdoptionTotals.Level.devices.place] += 1
            case .lastOrder: brand.amounts[AdoptionTotals.Level.devices.place] -= 1
            }
        }
        guard isByCustomer else { return }
        switch change {
        case .firstDevice: self.count(.added, of: type)
        case .lastDevice: self.count(.removed, of: type)
        case .firstOrder, .lastOrder: break
        }
    }

    /// Returns the registrations of a service whose changes are counted.
    ///
    /// - Parameter tally: nil counts nothing.
    public static func registrations(
        _ redis: RedisClient, _ tally: AdoptionTally?, isByCustomer: Bool
    ) -> Registrations {
        guard let tally else { return Registrations(redis: redis) }
        return Registrations(redis: redis) { type, change in
            tally.note(change, of: type, isByCustomer: isByCustomer)
        }
    }

    private func change<Result: Sendable>(
        _ type: OrderTypeIdentifier, _ body: (inout Brand) -> Result
    ) -> Result {
        self.brands.withLock { brands in body(&brands[type, default: self.brand(type)]) }
    }

    private func brand(_ type: OrderTypeIdentifier) -> Brand {
        let label = ("brand", type.rawValue)
        let steps: [AdoptionFigure] = [.details, .fetched, .added, .removed]
        return Brand(
            counters: Dictionary(
                uniqueKeysWithValues: steps.map {
                    let dimensions = [label, ("step", $0.rawValue)]
                    return ($0, Counter(label: "waybill_adoption_total", dimensions: dimensions, factory: self.factory))
                }),
            ages: self.factory.durations(
                "waybill_fetched_update_age_seconds", dimensions: [label], bounds: Self.ageBounds))
    }

    /// Takes all that was counted since the last call.
    ///
    /// - Parameter day: the present day, as in `AdoptionKey`.
    func take(day: String) -> [AdoptionTotals.Name: Int64] {
        self.brands.withLock { brands in
            var taken: [AdoptionTotals.Name: Int64] = [:]
            for (type, var brand) in brands {
                for figure in AdoptionFigure.allCases where brand.amounts[figure.place] != 0 {
                    taken[.count(figure, type, day: day)] = brand.amounts[figure.place]
                }
                for level in AdoptionTotals.Level.allCases where brand.amounts[level.place] != 0 {
                    taken[.level(level, type)] = brand.amounts[level.place]
                }
                for place in brand.amounts.indices { brand.amounts[place] = 0 }
                brands[type] = brand
            }
            return taken
        }
    }

    /// Puts back what could not be added to Redis; it counts for the day on which that succeeds.
    func putBack(_ taken: [AdoptionTotals.Name: Int64]) {
        for (name, amount) in taken {
            switch name {
            case .count(let figure, let type, _): self.change(type) { $0.amounts[figure.place] += amount }
            case .level(let level, let type): self.change(type) { $0.amounts[level.place] += amount }
            }
        }
    }
}

extension AdoptionFigure {
    fileprivate var place: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

extension AdoptionTotals.Level {
    fileprivate var place: Int { AdoptionFigure.allCases.count + (Self.allCases.firstIndex(of: self) ?? 0) }
}
