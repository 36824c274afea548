import APNS
import Operations
import ServiceLifecycle

/// Looks every few seconds how the client of each credential stands, also of one that sends nothing.
struct CredentialGauges: Service {
    let metrics: PusherMetrics
    /// The clients as they are now, by the name of their credential.
    let clients: @Sendable () -> [String: APNSClient]
    var interval = Duration.seconds(3)

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                await self.look()
                try await Task.sleep(for: self.interval)
            }
        }
    }

    /// Looks once. What has no client any more is shown no more.
    func look() async {
        let clients = self.clients()
        for (name, client) in clients { self.metrics[name].stands(await client.snapshot()) }
        self.metrics.keep(Set(clients.keys))
    }
}
