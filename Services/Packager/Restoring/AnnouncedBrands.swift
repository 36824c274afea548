import Model
import Store
import Synchronization

/// The brands that the packagers have, as each announces them, so that a packager with a stale mount does not conclude
/// that a brand no longer exists.
///
/// Each packager announces its brands every second. Announcements are remembered here too, since a Redis that was
/// emptied has none for that second.
/// Threads: any. Bounded: by the number of packagers.
final class AnnouncedBrands: Sendable {
    private struct Heard {
        let types: Set<OrderTypeIdentifier>
        let at: ContinuousClock.Instant
    }

    private let view: MaterializedView
    private let name: String
    private let own: @Sendable () -> Set<OrderTypeIdentifier>
    private let heard = Mutex<[String: Heard]>([:])

    /// - Parameter own: the types of this packager's brands, loaded or to be loaded.
    init(
        _ view: MaterializedView, name: String = ViewRecovery.randomName(),
        own: @escaping @Sendable () -> Set<OrderTypeIdentifier>
    ) {
        self.view = view
        self.name = name
        self.own = own
    }

    /// Announces this packager's brands, and records those of all packagers.
    func announce() async throws(StoreError) {
        let found = try await self.view.announce(self.own(), as: self.name)
        self.record(found, at: .now)
    }

    /// Records what packagers announced.
    func record(_ found: [String: Set<OrderTypeIdentifier>], at now: ContinuousClock.Instant) {
        self.heard.withLock { heard in
            for (name, types) in found { heard[name] = Heard(types: types, at: now) }
            heard = heard.filter { now - $0.value.at <= .seconds(MaterializedView.brandsLife) }
        }
    }

    /// Returns true if any packager of the last minute has a brand for a type.
    func knows(_ type: OrderTypeIdentifier, at now: ContinuousClock.Instant = .now) -> Bool {
        self.heard.withLock { heard in
            heard.values.contains { now - $0.at <= .seconds(MaterializedView.brandsLife) && $0.types.contains(type) }
        }
    }
}

/// The types whose orders are still to be restored, according to the view; updated by `ViewRecovery`.
///
/// Lets callers postpone work early. It may be a second old: `OrderStore` itself reads no order of such a type.
final class AwaitedTypes: Sendable {
    private let types = Mutex<Set<OrderTypeIdentifier>>([])

    var current: Set<OrderTypeIdentifier> { self.types.withLock { $0 } }

    func update(_ types: Set<OrderTypeIdentifier>) { self.types.withLock { $0 = types } }
}
