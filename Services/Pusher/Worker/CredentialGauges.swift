import APNS
import Model
import Operations
import ServiceLifecycle

/// Samples the state of each credential's client every few seconds, even of one that sends nothing.
struct CredentialGauges: Service {
    let metrics: PusherMetrics
    let scheduler: PushScheduler
    let parking: PushParking
    var interval = Duration.seconds(3)

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                await self.look()
                try await Task.sleep(for: self.interval)
            }
        }
    }

    /// Samples once. Gauges of credentials without a client are removed.
    func look() async {
        let clients = self.scheduler.clients
        for (type, client) in clients { self.metrics[type.rawValue].stands(await client.snapshot()) }
        var pending = self.parking.counts
        for (type, health, breaker) in self.scheduler.standings {
            self.metrics[type.rawValue].stands(credential: health.gauge, breaker: breaker.gauge)
            self.metrics[type.rawValue].pending(pending.removeValue(forKey: type) ?? 0)
        }
        // Order types come from the records' keys: those without a brand must not become labels of metrics.
        self.metrics.unknownTypes.pending(pending.values.reduce(0, +))
        self.metrics.keep(Set(clients.keys.map(\.rawValue)).union([PusherMetrics.unknownType]))
    }
}
