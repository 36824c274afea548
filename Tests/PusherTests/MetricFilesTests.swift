import APNS
import Foundation
import Operations
import TestKit
import Testing

@testable import Pusher

/// The selectors of alerts and dashboards in `compose/operate`, against the labels of the pusher's series.
@Suite struct MetricFilesTests {
    /// Returns the series of a pusher that has seen every event.
    private func series() -> [String: [[String: String]]] {
        let registry = MetricsRegistry()
        let metrics = PusherMetrics(factory: registry, host: "apns:443")["order.com.example.shop"]
        metrics.set(APNSSnapshot())
        metrics.set(credential: 0, breaker: 0)
        metrics.pending(0)
        metrics.answered(.answered(PushAnswer(status: 200)), elapsed: .zero)
        metrics.answered(.answered(PushAnswer(status: 410, reason: "Unregistered")), elapsed: .zero)
        let events: [APNSEvent] = [
            .connected, .disconnected(APNSError(.connecting, "")), .goAway(reason: nil, code: "NO_ERROR"),
            .streamLimit(1), .refusedStreams(1), .pingRoundTrip(.zero), .replaced(.goAway),
        ]
        for event in events { metrics.happened(event) }
        var series: [String: [[String: String]]] = [:]
        for line in registry.text.split(separator: "\n") {
            guard let match = line.firstMatch(of: #/^([a-z_]+)\{(.*)\} /#) else { continue }
            let labels = match.output.2.matches(of: #/([a-z]+)="([^"]*)"/#).map { label in
                (String(label.output.1), String(label.output.2))
            }
            series[String(match.output.1), default: []].append(Dictionary(labels) { first, _ in first })
        }
        return series
    }

    private func texts() throws -> [String] {
        return try ["operate/alerts/pusher.yaml", "operate/dashboards/pusher.json"].map { name in
            let path = Repository.root.appending(path: "compose/\(name)")
            return try String(contentsOf: path, encoding: .utf8).replacing("\\\"", with: "\"")
        }
    }

    @Test func everySelectorUsesExistingLabelsAndValues() throws {
        let series = self.series()
        var selectors = 0
        for text in try self.texts() {
            for selector in text.matches(of: #/(waybill_(?:push|apns)[a-z_]*)\{([^}]*)\}/#) {
                selectors += 1
                let candidates = try #require(series[String(selector.output.1)], "\(selector.output.1)")
                for label in selector.output.2.matches(of: #/([a-z]+)(=~|!~|!=|=)"([^"]*)"/#) {
                    let name = String(label.output.1)
                    #expect(candidates.allSatisfy { $0[name] != nil }, "\(selector.output.0)")
                    guard label.output.2 == "=" else { continue }
                    let value = String(label.output.3)
                    #expect(candidates.contains { $0[name] == value }, "\(selector.output.0)")
                }
            }
        }
        #expect(selectors > 15)
    }

    /// A sum by a label that a series does not have is one sum for all.
    @Test func everyGroupingUsesExistingLabels() throws {
        let series = self.series()
        let added: Set = ["instance"]
        for text in try self.texts() {
            for use in text.matches(of: #/by \(([a-z, ]+)\) \((?:rate\(|increase\()?(waybill_(?:push|apns)[a-z_]*)/#) {
                let candidates = try #require(series[String(use.output.2)], "\(use.output.2)")
                for name in use.output.1.split(separator: ", ").map(String.init) where !added.contains(name) {
                    #expect(candidates.allSatisfy { $0[name] != nil }, "\(use.output.0)")
                }
            }
        }
    }

    @Test func theDashboardIsJSONWithTargetsInEveryPanel() throws {
        let path = Repository.root.appending(path: "compose/operate/dashboards/pusher.json")
        let object = try JSONSerialization.jsonObject(with: Data(contentsOf: path)) as? [String: Any]
        let panels = try #require(object?["panels"] as? [[String: Any]])
        #expect(!panels.isEmpty)
        #expect(panels.allSatisfy { ($0["targets"] as? [Any])?.isEmpty == false })
    }
}
