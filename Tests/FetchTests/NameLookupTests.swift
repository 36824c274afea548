import Glibc
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Fetch

/// Look-ups of names, decided by a value, and through a fetcher whose resolver is replaced.
@Suite struct NameLookupTests {
    private static let start = ContinuousClock.now
    private static let answer = NameLookups.Result.success([IPAddress(version4: 0xC000_0201)])
    private static let failure = NameLookups.Result.failure(FetchError(.connection, "no such host"))

    private func at(_ seconds: Double) -> ContinuousClock.Instant { Self.start + .seconds(seconds) }

    private func isRefused(_ step: NameLookups.Step) -> Bool {
        guard case .known(.failure(let error)) = step else { return false }
        return error.code == .connection && !error.mayHaveBeenSent
    }

    @Test func requestsForOneHostShareALookup() {
        var lookups = NameLookups()
        #expect(lookups.ask("a", now: self.at(0)) == .begin)
        #expect(lookups.ask("b", now: self.at(0)) == .begin, "another host")
        for _ in 0..<1000 { #expect(lookups.ask("a", now: self.at(0.9)) == .wait) }
        lookups.ended("a", Self.answer, now: self.at(1))
        #expect(lookups.ask("a", now: self.at(60.9)) == .known(Self.answer))
        #expect(lookups.ask("a", now: self.at(61)) == .begin, "addresses are kept for a minute")
    }

    @Test func aHostWhoseLookupHangsIsRefused() {
        var lookups = NameLookups()
        let begun = stride(from: 0, to: 4.9, by: 0.1).map { lookups.ask("a", now: self.at($0)) }
        #expect(begun.filter { $0 == .begin }.count == NameLookups.most)
        #expect(begun.filter { $0 == .wait }.count == begun.count - NameLookups.most)
        for second in [5.0, 10, 29] {
            let step = lookups.ask("a", now: self.at(second))
            #expect(self.isRefused(step))
        }
        lookups.ended("a", Self.failure, now: self.at(30))
        #expect(lookups.ask("a", now: self.at(34.9)) == .known(Self.failure), "a failure is remembered shortly")
        let second = lookups.ask("a", now: self.at(35))
        #expect(self.isRefused(second), "the second one hangs still")
        lookups.ended("a", Self.answer, now: self.at(36))
        lookups.ended("a", Self.failure, now: self.at(37))
        #expect(lookups.ask("a", now: self.at(38)) == .known(Self.answer))
    }

    @Test func allHostsTogetherAreBounded() {
        var lookups = NameLookups()
        let steps = (0..<100).map { lookups.ask("host-\($0)", now: self.at(0)) }
        #expect(steps.filter { $0 == .begin }.count == NameLookups.mostInAll)
        let refused = steps.filter(self.isRefused).count
        #expect(refused == 100 - NameLookups.mostInAll)
        lookups.ended("host-0", Self.failure, now: self.at(1))
        #expect(lookups.ask("host-99", now: self.at(1)) == .begin)
    }

    // MARK: A fetcher

    /// A resolver that answers only once it is told to.
    private final class Resolver: Sendable {
        let asked = Mutex<[String]>([])
        let isOpen = Mutex(false)

        func lookUp(_ host: String) -> NameLookups.Result {
            self.asked.withLock { $0.append(host) }
            while !self.isOpen.withLock({ $0 }) { usleep(5000) }
            return .success([IPAddress(version4: 0x7F00_0001)])
        }
    }

    @Test(.server, .timeLimit(.minutes(1))) func aHangingResolverTakesFewThreads() async throws {
        let server = try await PictureServer.start()
        try server.answer("/a.png", .init([1, 2, 3]))
        let resolver = Resolver()
        var configuration = FetcherConfiguration()
        configuration.addresses = AddressPolicy(exceptions: [try #require(IPAddress("127.0.0.1"))])
        configuration.rootsPEM = server.rootPEM
        configuration.concurrency = 100
        configuration.lookUp = { resolver.lookUp($0) }
        let fetcher = try Fetcher(configuration)
        var request = FetchRequest(url: "https://cdn.example.com:\(server.port)/a.png") { _ in true }
        request.connectTimeout = .seconds(2)
        let hanging = request
        func fetch() async -> FetchError? {
            do throws(FetchError) {
                _ = try await fetcher.fetch(hanging)
                return nil
            } catch { return error }
        }
        // Two rounds: the second begins after the patience with the first look-up.
        for _ in 0..<2 {
            let errors = await withTaskGroup { group in
                for _ in 0..<50 { group.addTask { await fetch() } }
                return await group.reduce(into: [FetchError?]()) { $0.append($1) }
            }
            #expect(errors.count == 50)
            // On a busy machine the second round may begin when requests are refused already.
            #expect(errors.allSatisfy { [.timeout, .connection].contains($0?.code) && $0?.mayHaveBeenSent == false })
        }
        #expect(resolver.asked.withLock { $0.count } <= NameLookups.most)
        try await Task.sleep(for: .milliseconds(1100))
        let began = ContinuousClock.now
        let refused = await fetch()
        #expect(refused?.code == .connection)
        #expect(refused?.mayHaveBeenSent == false)
        #expect(refused?.message.contains("name servers do not answer") == true)
        #expect(ContinuousClock.now - began < .seconds(1.5), "at once, not after the time limit")
        resolver.isOpen.withLock { $0 = true }
        try await eventually("the name is known") { await fetch() == nil }
        #expect(resolver.asked.withLock { $0.count } <= NameLookups.most)
        await fetcher.close()
        await server.stop()
    }

    @Test func theSystemLooksUpThisMachine() throws {
        let addresses = try systemLookup("localhost").get()
        #expect(addresses.contains(IPAddress(version4: 0x7F00_0001)) || addresses.contains { $0.bits & 0xFF == 1 })
        guard case .failure(let error) = systemLookup("no-such-host.invalid") else {
            Issue.record("a reserved name has an address")
            return
        }
        #expect(error.code == .connection)
    }
}
