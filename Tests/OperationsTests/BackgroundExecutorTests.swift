import Foundation
import Operations
import Testing

struct BackgroundExecutorTests {
    @Test
    func childTasksRunOnThreadsOfTheirOwn() async throws {
        let (own, others) = try await withThrowingTaskGroup(of: String?.self) { group in
            group.addTask(executorPreference: BackgroundExecutor.shared) {
                let before = threadName()
                try await Task.sleep(for: .milliseconds(1))
                return threadName() == before ? before : nil
            }
            let own = try await group.next() ?? nil
            group.addTask { threadName() }
            return (own, try await group.next() ?? nil)
        }
        #expect(own?.hasSuffix("utility-qos") == true, "\(own ?? "moved to another thread")")
        #expect(others?.hasSuffix("utility-qos") == false, "\(others ?? "unknown")")
    }
}

/// Returns the last 15 characters of the thread's name, which Dispatch sets to the queue's name.
private func threadName() -> String? {
    try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8).trimmingCharacters(in: .newlines)
}
