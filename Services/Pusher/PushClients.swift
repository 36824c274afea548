import APNS
import Model
import Packaging
import Synchronization

/// One client for each brand's credential, kept in step with the brands.
///
/// A client whose credential was replaced takes nothing new from then on; it is closed when the batch that has it in
/// hand is done. Bounded: two clients a brand, more only if credentials change faster than a batch is done.
final class PushClients: Sendable {
    private struct Kept {
        let push: PushAuthentication
        let client: APNSClient
    }

    private struct State {
        var kept: [OrderTypeIdentifier: Kept] = [:]
        /// Clients to be closed when nobody works with them any more.
        var retired: [APNSClient] = []
        var batches = 0

        /// What can be closed now.
        mutating func takeIdle() -> [APNSClient] {
            guard self.batches == 0 else { return [] }
            defer { self.retired = [] }
            return self.retired
        }
    }

    private let make: @Sendable (OrderTypeIdentifier, PushAuthentication) throws -> APNSClient
    private let state = Mutex(State())

    /// - Parameter make: a client for the credential of an order type.
    /// - Throws: what `make` throws for the first that it cannot make.
    init(
        _ brands: Brands, make: @escaping @Sendable (OrderTypeIdentifier, PushAuthentication) throws -> APNSClient
    ) throws {
        self.make = make
        var kept: [OrderTypeIdentifier: Kept] = [:]
        for type in brands.orderTypes {
            guard let push = brands[type]?.push else { continue }
            kept[type] = Kept(push: push, client: try make(type, push))
        }
        self.state.withLock { [kept] in $0.kept = kept }
    }

    /// The clients as they are now, by the names of their credentials; not to be sent with.
    var named: [String: APNSClient] {
        self.state.withLock { state in
            Dictionary(uniqueKeysWithValues: state.kept.map { ($0.key.rawValue, $0.value.client) })
        }
    }

    /// Lends the clients as they are now; none of them is closed before the closure returns.
    func with(_ body: ([OrderTypeIdentifier: APNSClient]) async throws -> Void) async throws {
        let clients = self.state.withLock { state in
            state.batches += 1
            return state.kept.mapValues(\.client)
        }
        let result: Result<Void, any Error>
        do { result = .success(try await body(clients)) } catch { result = .failure(error) }
        let idle = self.state.withLock { state in
            state.batches -= 1
            return state.takeIdle()
        }
        for client in idle { await client.close() }
        try result.get()
    }

    /// Follows the brands.
    ///
    /// - Returns: the brands whose new credential cannot be used, and why; they keep the client that they had.
    func update(_ brands: Brands) async -> [(type: OrderTypeIdentifier, error: any Error)] {
        let old = self.state.withLock { $0.kept }
        var new: [OrderTypeIdentifier: Kept] = [:]
        var failures: [(type: OrderTypeIdentifier, error: any Error)] = []
        for type in brands.orderTypes {
            guard let push = brands[type]?.push else { continue }
            if let kept = old[type], kept.push == push {
                new[type] = kept
                continue
            }
            do {
                new[type] = Kept(push: push, client: try self.make(type, push))
            } catch {
                new[type] = old[type]
                failures.append((type, error))
            }
        }
        let idle = self.state.withLock { [new] state in
            state.retired += state.kept.filter { type, kept in new[type]?.client !== kept.client }.map(\.value.client)
            state.kept = new
            return state.takeIdle()
        }
        for client in idle { await client.close() }
        return failures
    }

    /// Closes all clients, when no batch is in hand any more.
    func close() async {
        let clients = self.state.withLock { state in
            defer { state = State() }
            return state.retired + state.kept.values.map(\.client)
        }
        for client in clients { await client.close() }
    }
}
