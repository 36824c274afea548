public import CoreMetrics

extension Dictionary
where Key: CaseIterable & RawRepresentable, Key.RawValue == String, Value == Counter {
    /// Makes a counter for each case; a dimension names the case.
    public init(
        label: String, by dimension: String, dimensions: [(String, String)] = [], factory: any MetricsFactory
    ) {
        self.init(
            uniqueKeysWithValues: Key.allCases.map { key in
                (key, Counter(label: label, dimensions: dimensions + [(dimension, key.rawValue)], factory: factory))
            })
    }
}
