import CoreMetrics
import Testing

@testable import Operations

@Suite struct MetricsTests {
    /// Returns the series in the text: values by name with labels.
    func series(_ registry: MetricsRegistry) throws -> [String: Double] {
        var found: [String: Double] = [:]
        for line in registry.text.split(separator: "\n") {
            if line.hasPrefix("#") {
                #expect(line.wholeMatch(of: /# TYPE [a-z_]+ (counter|gauge|histogram)/) != nil, "\(line)")
                continue
            }
            let match = try #require(
                line.wholeMatch(of: /([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)/), "\(line)")
            let value = try #require(Double(match.output.2))
            #expect(found.updateValue(value, forKey: String(match.output.1)) == nil, "\(line) stands twice")
        }
        #expect(registry.text.isEmpty || registry.text.hasSuffix("\n"))
        return found
    }

    @Test func countersAndGaugesSayTheirValues() throws {
        let registry = MetricsRegistry()
        #expect(registry.text.isEmpty)
        let counter = Counter(label: "c_total", dimensions: [("status", "200")], factory: registry)
        counter.increment()
        counter.increment(by: 4)
        Counter(label: "c_total", dimensions: [("status", "200")], factory: registry).increment()
        Counter(label: "c_total", dimensions: [("status", "503")], factory: registry).increment()
        Meter(label: "g", factory: registry).set(2.5)
        Gauge(label: "h", factory: registry).record(7)
        let series = try series(registry)
        #expect(series == [#"c_total{status="200"}"#: 6, #"c_total{status="503"}"#: 1, "g": 2.5, "h": 7])
        #expect(registry.text.split(separator: "\n").count { $0.hasPrefix("# TYPE c_total") } == 1)
    }

    @Test func labelValuesCannotForgeASeries() throws {
        let registry = MetricsRegistry()
        let odd = "a\"b\\c\nd\r\ne"
        Counter(label: "c_total", dimensions: [("x", odd)], factory: registry).increment()
        #expect(try self.series(registry).count == 1)
        #expect(registry.text.contains("x=\"a\\\"b\\\\c\\nd\r\\ne\""))
    }

    @Test func bucketsOfAHistogramAreCumulative() throws {
        let registry = MetricsRegistry()
        let timer = Timer(label: "t_seconds", dimensions: [("endpoint", "a")], factory: registry)
        for milliseconds in [0, 1, 3, 40, 700, 90_000] { timer.recordMilliseconds(Int64(milliseconds)) }
        let series = try series(registry)
        func bucket(_ bound: String) -> Double? { series["t_seconds_bucket{endpoint=\"a\",le=\"\(bound)\"}"] }
        #expect(bucket("0.0005") == 1)
        #expect(bucket("0.001") == 2)
        #expect(bucket("0.005") == 3)
        #expect(bucket("0.05") == 4)
        #expect(bucket("60.0") == 5)
        #expect(bucket("+Inf") == 6)
        let counts = registry.text.split(separator: "\n").filter { $0.contains("_bucket") }.compactMap {
            $0.split(separator: " ").last.flatMap { Double($0) }
        }
        #expect(counts == counts.sorted())
        #expect(counts.count == HistogramMetric.secondBounds.count + 1)
        #expect(series["t_seconds_count{endpoint=\"a\"}"] == 6)
        #expect(abs((series["t_seconds_sum{endpoint=\"a\"}"] ?? 0) - 90.744) < 1e-6)
        let recorder = Recorder(label: "r", aggregate: true, factory: registry)
        for value in [1, 2, 2_000_000] { recorder.record(value) }
        #expect(try self.series(registry)["r_bucket{le=\"1.0\"}"] == 1)
        #expect(try self.series(registry)["r_bucket{le=\"+Inf\"}"] == 3)
    }

    @Test func aHistogramMayHaveBucketsOfItsOwn() throws {
        let registry = MetricsRegistry()
        let ages = registry.durations("age_seconds", dimensions: [("x", "a")], bounds: [0.001, 60, 3600])
        ages.record(seconds: [0, 0.001, 0.002, 60, 61, 3601])
        ages.record(seconds: [])
        // The same histogram again, however it is requested.
        registry.durations("age_seconds", dimensions: [("x", "a")], bounds: [1]).record(seconds: [1])
        Timer(label: "age_seconds", dimensions: [("x", "a")], factory: registry).recordSeconds(1)
        let series = try self.series(registry)
        #expect(
            series.filter { $0.key.contains("_bucket") } == [
                "age_seconds_bucket{x=\"a\",le=\"0.001\"}": 2, "age_seconds_bucket{x=\"a\",le=\"60.0\"}": 6,
                "age_seconds_bucket{x=\"a\",le=\"3600.0\"}": 7, "age_seconds_bucket{x=\"a\",le=\"+Inf\"}": 8,
            ])
        // A metric that is not a histogram keeps its kind.
        Counter(label: "c_total", factory: registry).increment()
        registry.durations("c_total", bounds: [1]).record(seconds: [1])
        #expect(try self.series(registry)["c_total"] == 1)
    }

    @Test func aMetricNameKeepsItsFirstKind() throws {
        let registry = MetricsRegistry()
        Counter(label: "x", factory: registry).increment()
        Meter(label: "x", factory: registry).set(5)
        Timer(label: "x", factory: registry).recordSeconds(1)
        #expect(try self.series(registry) == ["x": 1])
    }

    @Test func readinessNamesWhatIsMissing() {
        let readiness = Readiness(conditions: ["redis", "consumer-group", "redis"])
        #expect(readiness.reasons == ["consumer-group: not yet", "redis: not yet"])
        readiness.met("redis")
        readiness.met("never heard of")
        #expect(readiness.reasons == ["consumer-group: not yet"])
        readiness.met("consumer-group")
        #expect(readiness.reasons.isEmpty)
        readiness.unmet("redis", "away")
        #expect(readiness.reasons == ["redis: away"])
    }

    @Test func pausesGrowToFiveSecondsAndAreSpread() {
        #expect(backoff(attempt: 1) { $0.upperBound } == .milliseconds(100))
        #expect(backoff(attempt: 1) { $0.lowerBound } == .milliseconds(50))
        #expect(backoff(attempt: 3) { $0.upperBound } == .milliseconds(400))
        for attempt in [Int.min, -1, 0, 1, 6, 7, 62, 63, 64, 65, 1000, Int.max] {
            let pause = backoff(attempt: attempt) { $0.upperBound }
            #expect(pause >= .milliseconds(100))
            #expect(pause <= .seconds(5))
        }
        #expect(backoff(attempt: 1000) { $0.upperBound } == .seconds(5))
    }
}
