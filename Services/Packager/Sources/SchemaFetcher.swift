import Model
import Operations
import ServiceLifecycle
import Synchronization

/// Asks registries for the schemas that records need, beside the work on records and each source's beside the others':
/// a registry that is slow holds only records of its own source.
struct SchemaFetcher: Service {
    /// The longest delay before a schema is asked for.
    private static let tick = Duration.milliseconds(100)

    let table: @Sendable () -> SourceTable
    let mapper: Mapper

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                repeat {
                    for source in self.table().sources {
                        guard let registry = source.registry, let first = registry.nextWanted() else { continue }
                        group.addTask { await registry.fetch(from: first, self.mapper, of: source.name) }
                    }
                } while (try? await Task.sleep(for: Self.tick)) != nil
            }
        }
    }
}

/// The schemas that records wait for.
extension SchemaRegistry {
    /// The most schemas that are remembered to be asked for; others when their records are tried again.
    private static let wantedLimit = 1000
    /// The time after which a missing schema is asked for again.
    private static let missingTime = Duration.seconds(60)

    struct Wanted {
        fileprivate var identifiers: Set<UInt32> = []
        fileprivate var missing: [UInt32: (fault: ChangeFault, until: ContinuousClock.Instant)] = [:]
        fileprivate var isAsking = false
        fileprivate var failures = 0
        fileprivate var due = ContinuousClock.now
        fileprivate var reason: String?
    }

    /// The reason why all records of the source wait: the registry could not be asked. Nil if it could.
    var reasonToAwait: String? { self.wanted.withLock { $0.reason } }

    /// Returns a schema without asking; nil if it must be asked for first, which `SchemaFetcher` does.
    func known(_ identifier: UInt32) -> Result<Void, ChangeFault>? {
        if self.stored(identifier) != nil { return .success(()) }
        return self.wanted.withLock { wanted in
            if let missing = wanted.missing[identifier], missing.until > .now { return .failure(missing.fault) }
            if wanted.identifiers.count < Self.wantedLimit { wanted.identifiers.insert(identifier) }
            return nil
        }
    }

    /// Returns a schema to ask for; nil if there is none, or one is being asked for, or it is too early to try again.
    fileprivate func nextWanted() -> UInt32? {
        self.wanted.withLock { wanted in
            guard !wanted.isAsking, wanted.due <= .now, let identifier = wanted.identifiers.first else { return nil }
            wanted.isAsking = true
            return identifier
        }
    }

    /// Asks for a schema, and then for the others.
    fileprivate func fetch(from first: UInt32, _ mapper: Mapper, of owner: String) async {
        var next: UInt32? = first
        while let identifier = next {
            self.note(await self.schema(identifier, mapper, of: owner), of: identifier)
            next = self.nextWanted()
        }
    }

    private func note(_ answer: Answer, of identifier: UInt32) {
        self.wanted.withLock { wanted in
            wanted.isAsking = false
            if case .away(let reason) = answer {
                wanted.failures += 1
                wanted.due = .now + backoff(attempt: wanted.failures, random: { Double.random(in: $0) })
                wanted.reason = reason
                return
            }
            wanted.identifiers.remove(identifier)
            (wanted.failures, wanted.reason) = (0, nil)
            guard case .missing(let fault) = answer else { return }
            if wanted.missing.count >= Self.wantedLimit { _ = wanted.missing.popFirst() }
            wanted.missing[identifier] = (fault, .now + Self.missingTime)
        }
    }
}
