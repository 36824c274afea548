import Foundation

/// Does something with each item, spread over all cores; the results are in order.
func onAllCores<Item: Sendable, Value: Sendable>(
    _ items: [Item], _ body: @escaping @Sendable (Item) throws -> Value
) async throws -> [Value] {
    let lanes = min(ProcessInfo.processInfo.activeProcessorCount, items.count)
    return try await withThrowingTaskGroup(of: [(Int, Value)].self) { group in
        for lane in 0..<lanes {
            group.addTask {
                try stride(from: lane, to: items.count, by: lanes).map { ($0, try body(items[$0])) }
            }
        }
        return try await group.reduce(into: []) { $0 += $1 }.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
