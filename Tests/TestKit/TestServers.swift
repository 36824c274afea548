import Foundation

/// The servers of tests: redis-server, brokers, listeners, and programs that run beside the tests.
public enum TestServers {
    /// False in a pure run (`WAYBILL_TEST_PURE=1`), which skips the tests with the trait `.server`.
    public static let areAllowed = ProcessInfo.processInfo.environment["WAYBILL_TEST_PURE"] != "1"

    /// The reason why a test may not have a server.
    public struct Refusal: Error, CustomStringConvertible {
        public let description: String
    }

    /// Checks that servers are allowed. Each helper that starts a server, or a program that runs beside the test, calls
    /// it first.
    /// - Throws: `Refusal` in a pure run, so that a test without the trait fails there.
    public static func use(_ server: String) throws {
        guard !Self.areAllowed else { return }
        throw Refusal(description: "a pure run has no \(server): mark the test, or its suite, with the trait .server")
    }
}
