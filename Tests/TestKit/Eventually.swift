/// The condition that did not hold in time, with the place of the wait.
public struct NotInTime: Error, CustomStringConvertible {
    public let description: String
}

/// Checks a condition every 10 ms until it holds.
///
/// - Parameter what: the awaited event, for the message.
/// - Throws: `NotInTime` after `patience`; the errors of `condition`.
public func eventually(
    _ what: String, within patience: Duration = .seconds(60), file: String = #fileID, line: Int = #line,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + patience
    while try await !condition() {
        guard ContinuousClock.now < deadline else {
            throw NotInTime(description: "\(file):\(line): not within \(patience): \(what)")
        }
        try await Task.sleep(for: .milliseconds(10))
    }
}
