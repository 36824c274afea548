import APNS
import Brands
import Model
import Synchronization

/// One client for each brand's credential, kept up to date with the brands.
///
/// A client whose credential was replaced gets no new requests; it is closed when its requests are answered or their
/// time is over, and unanswered ones are then sent with the new credential. Bounded: one client per brand, and those
/// being closed.
final class PushClients: Sendable {
    private struct InUse {
        let push: PushAuthentication
        let options: PushOptions
    }

    /// Makes a client for the credential of an order type. Its replies are passed on with the generation of the
    /// credential.
    typealias Make = @Sendable (OrderTypeIdentifier, PushAuthentication, _ generation: Int) throws -> APNSClient

    private struct State {
        var inUse: [OrderTypeIdentifier: InUse] = [:]
        var lastGeneration = 0
        var failures: [(type: OrderTypeIdentifier, error: any Error)] = []
    }

    private let scheduler: PushScheduler
    private let onRenewed: @Sendable (OrderTypeIdentifier) -> Void
    private let make: Make
    private let state = Mutex(State())

    /// The brands whose credential could not be used at the start, with the errors; they are retried when their files
    /// change.
    var failures: [(type: OrderTypeIdentifier, error: any Error)] { self.state.withLock { $0.failures } }

    /// - Parameter onRenewed: called when a credential was replaced, or its brand is gone.
    init(
        _ brands: Brands, scheduler: PushScheduler, onRenewed: @escaping @Sendable (OrderTypeIdentifier) -> Void,
        make: @escaping Make
    ) {
        self.scheduler = scheduler
        self.onRenewed = onRenewed
        self.make = make
        for type in brands.orderTypes {
            guard let brand = brands[type] else { continue }
            do {
                _ = try self.install(type, brand)
            } catch {
                self.state.withLock { $0.failures.append((type, error)) }
            }
        }
    }

    /// - Returns: the client that was replaced.
    private func install(_ type: OrderTypeIdentifier, _ brand: Brand) throws -> APNSClient? {
        let generation = self.state.withLock { state in
            state.lastGeneration += 1
            return state.lastGeneration
        }
        let client = try self.make(type, brand.push, generation)
        self.state.withLock { $0.inUse[type] = InUse(push: brand.push, options: brand.pushOptions) }
        return self.scheduler.install(
            type, PushScheduler.Sender(client: client, generation: generation, options: brand.pushOptions))
    }

    /// Installs, changes and removes clients as the brands require; calls must not overlap.
    ///
    /// - Returns: the brands whose new credential cannot be used, with the errors; they keep their former client.
    func update(_ brands: Brands) async -> [(type: OrderTypeIdentifier, error: any Error)] {
        var failures: [(type: OrderTypeIdentifier, error: any Error)] = []
        var replaced: [APNSClient] = []
        let old = self.state.withLock { $0.inUse }
        for type in brands.orderTypes {
            guard let brand = brands[type] else { continue }
            if let current = old[type], current.push == brand.push {
                guard current.options != brand.pushOptions else { continue }
                self.state.withLock { $0.inUse[type] = InUse(push: current.push, options: brand.pushOptions) }
                self.scheduler.change(type, brand.pushOptions)
                continue
            }
            do {
                if let client = try self.install(type, brand) { replaced.append(client) }
                self.onRenewed(type)
            } catch {
                failures.append((type, error))
            }
        }
        for type in old.keys where brands[type] == nil {
            self.state.withLock { $0.inUse[type] = nil }
            if let client = self.scheduler.remove(type) { replaced.append(client) }
            self.onRenewed(type)
        }
        await Self.close(replaced)
        return failures
    }

    /// Closes all clients. When this returns, requests in flight are answered, or their time is over.
    func close() async {
        await Self.close(self.scheduler.removeAll())
        self.state.withLock { $0.inUse = [:] }
    }

    private static func close(_ clients: [APNSClient]) async {
        await withTaskGroup { group in
            for client in clients { group.addTask { await client.close() } }
        }
    }
}
