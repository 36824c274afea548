import APNS
import Operations

/// Settings of the pusher whose check needs more than a range.
extension Settings {
    /// Returns the endpoint of APNs. Apple has two ports; a mistyped one would only show as connections that are never
    /// made.
    ///
    /// Source: Wallet Orders §4.2
    func apnsEndpoint() throws(SettingsError) -> APNSEndpoint {
        let url = self.text(.apnsURL, default: "https://api.push.apple.com:443")
        let endpoint: APNSEndpoint
        do {
            endpoint = try APNSEndpoint(url: url)
        } catch {
            throw SettingsError(.apnsURL, value: url, error.message)
        }
        guard !endpoint.host.lowercased().hasSuffix(".push.apple.com") || [443, 2197].contains(endpoint.port) else {
            throw SettingsError(.apnsURL, value: url, "APNs listens on the ports 443 and 2197 only")
        }
        return endpoint
    }

    /// Returns the HTTP proxy to APNs; nil if there is none.
    func apnsProxy() throws(SettingsError) -> APNSProxy? {
        guard let url = self.text(.apnsProxy) else { return nil }
        do {
            return try APNSProxy(url: url)
        } catch {
            throw SettingsError(.apnsProxy, value: url, error.message)
        }
    }

    /// Returns the fewest and the most connections of one credential.
    func apnsConnections() throws(SettingsError) -> ClosedRange<Int> {
        let text = self.text(.apnsConnections, default: "2-8")
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { part in
            part.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(part) : nil
        }
        guard parts.count == 2, let fewest = parts[0], let most = parts[1], fewest >= 1, fewest <= most, most <= 100
        else {
            throw SettingsError(
                .apnsConnections, value: text,
                "must look like 2-8, the fewest and the most connections of a credential, from 1 to 100")
        }
        return fewest...most
    }
}
