/// The reason why a condition was waited for in vain, with the place of the wait.
public struct NotInTime: Error, CustomStringConvertible {
    public let description: String
}

/// Checks every few milliseconds until a condition holds.
///
/// - Parameter what: the event that is waited for, for the message.
/// - Throws: `NotInTime`; the errors of `condition`.
public func eventually(
    _ what: String, within patience: Duration = .seconds(30), file: String = #fileID, line: Int = #line,
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
