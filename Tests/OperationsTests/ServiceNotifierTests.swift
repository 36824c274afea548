import Foundation
import Glibc
import Logging
import ServiceLifecycle
import ServiceLifecycleTestKit
import TestKit
import Testing

@testable import Operations

/// Messages to a datagram socket, as systemd opens it for a unit.
@Suite(.timeLimit(.minutes(1))) struct ServiceNotifierTests {
    /// A bound socket. Owner: the test, which closes it.
    private struct Receiver {
        let descriptor: Int32

        init(_ name: String) throws {
            self.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let path = name.hasPrefix("@") ? [0] + name.utf8.dropFirst() : Array(name.utf8) + [0]
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
            let code = unsafe withUnsafePointer(to: &address) {
                unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(self.descriptor, $0, socklen_t(2 + path.count))
                }
            }
            try #require(code == 0)
        }

        /// The next datagram; nil if none has come.
        func next() -> String? {
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = unsafe recv(self.descriptor, &bytes, bytes.count, 0)
            return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
        }
    }

    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test(arguments: [false, true])
    func theStartIsToldOnceEverySocketListensAndTheStopAtItsBeginning(isAbstract: Bool) async throws {
        let directory = try TemporaryDirectory("notify")
        let name = isAbstract ? "@waybill-\(UUID())" : "\(directory.path)/notify"
        let receiver = try Receiver(name)
        defer { close(receiver.descriptor) }
        let readiness = Readiness(
            conditions: [OperationsServer.listening, WorkerCondition.listener, WorkerCondition.joined])
        let notifier = ServiceNotifier(socket: name, readiness: readiness, logger: Self.logger)
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await notifier.run() }
                readiness.met(OperationsServer.listening)
                try await Task.sleep(for: ServiceNotifier.tick * 3)
                #expect(receiver.next() == nil, "one socket does not listen yet")
                readiness.met(WorkerCondition.listener)
                try await eventually("the start") { receiver.next() == "READY=1" }
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
        #expect(receiver.next() == "STOPPING=1", "Kafka was never there")
        #expect(receiver.next() == nil)
    }

    @Test func aSocketThatIsNotThereOrHasNoNameIsReported() {
        #expect(ServiceNotifier.send("READY=1", to: "/nonexistent/socket") == "No such file or directory")
        for name in ["", "relative", "@" + String(repeating: "a", count: 107)] {
            #expect(ServiceNotifier.send("READY=1", to: name)?.hasPrefix("must be an absolute path") == true)
        }
    }
}
