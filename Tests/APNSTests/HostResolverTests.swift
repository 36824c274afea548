import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import TestKit
import Testing

@testable import APNS

/// The look-ups of host names for many clients. Serialized: all resolvers share a few threads, and each test blocks
/// them.
@Suite(.serialized) struct HostResolverTests {
    /// A resolver that blocks until it is released.
    private final class Slow: Sendable {
        let asked = Mutex(0)
        let gate = DispatchSemaphore(value: 0)

        func resolve(_ host: String, _ port: Int) throws(APNSError) -> [SocketAddress] {
            self.asked.withLock { $0 += 1 }
            // Runs on a thread that may block, like the system's resolver.
            _ = self.gate.wait(timeout: .now() + .seconds(60))
            guard let address = try? SocketAddress(ipAddress: "127.0.0.1", port: port) else { return [] }
            return [address]
        }

        func letGo(_ count: Int) { for _ in 0..<count { self.gate.signal() } }
    }

    @Test func concurrentRequestsForANameShareOneLookup() async throws {
        let slow = Slow()
        let resolver = HostResolver(patience: .hours(1), slow.resolve)
        let loops = MultiThreadedEventLoopGroup.singleton
        let first = (0..<50).map { _ in resolver.addresses(of: "a", port: 1, on: loops.next()) }
        let other = resolver.addresses(of: "a", port: 2, on: loops.next())
        try await eventually("one for each name") { slow.asked.withLock { $0 } == 2 }
        slow.letGo(2)
        for answer in first { #expect(try await answer.get().map(\.port) == [1]) }
        #expect(try await other.get().map(\.port) == [2])
        // Nothing is cached.
        let later = resolver.addresses(of: "a", port: 1, on: loops.next())
        try await eventually("asked again") { slow.asked.withLock { $0 } == 3 }
        slow.letGo(1)
        #expect(try await later.get().count == 1)
    }

    @Test func anUnansweredLookupIsRepeatedOnlyOnce() async throws {
        let slow = Slow()
        let resolver = HostResolver(patience: .seconds(1), slow.resolve)
        let loops = MultiThreadedEventLoopGroup.singleton
        let start = NIODeadline.now()
        let answers = (0..<10).map { second in
            resolver.addresses(of: "a", port: 1, on: loops.next(), now: start + .seconds(Int64(second)))
        }
        try await eventually("two") { slow.asked.withLock { $0 } == 2 }
        slow.letGo(2)
        for answer in answers { #expect(try await answer.get().count == 1) }
        #expect(slow.asked.withLock { $0 } == 2)
    }

    @Test func unansweredLookupsDoNotBlockTheThreadPool() async throws {
        let slow = Slow()
        let resolver = HostResolver(slow.resolve)
        let loops = MultiThreadedEventLoopGroup.singleton
        // More look-ups than the shared pool has threads.
        let answers = (0..<System.coreCount + 2).map { resolver.addresses(of: "a\($0)", port: 1, on: loops.next()) }
        try await eventually("look-ups") { slow.asked.withLock { $0 } >= HostResolver.most }
        #expect(try await NIOThreadPool.singleton.runIfActive { true })
        slow.letGo(answers.count)
        for answer in answers { #expect(try await answer.get().count == 1) }
    }

    @Test func aFailedLookupFailsEveryRequestForTheName() async throws {
        let resolver = HostResolver { _, _ throws(APNSError) in throw APNSError(.connecting, "no such name") }
        let loops = MultiThreadedEventLoopGroup.singleton
        for answer in (0..<3).map({ _ in resolver.addresses(of: "a", port: 1, on: loops.next()) }) {
            let error = await #expect(throws: APNSError.self) { _ = try await answer.get() }
            #expect(error?.message == "no such name")
        }
    }
}
