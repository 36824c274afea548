import Foundation
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Fetch

/// The fetcher against a real HTTPS server whose names are pinned to addresses, in place of DNS.
@Suite(.server, .timeLimit(.minutes(2))) struct FetcherTests {
    private static let host = "cdn.example.com"

    /// Runs `body` with a server and a fetcher that may connect to 127.0.0.1 but to no other internal address.
    private func withServer(
        address: String = "127.0.0.1", concurrency: Int = 8, queueLimit: Int = 256, roots: Bool = true,
        _ body: (PictureServer, Fetcher) async throws -> Void
    ) async throws {
        let server = try await PictureServer.start()
        var configuration = FetcherConfiguration()
        configuration.addresses = AddressPolicy(exceptions: [try #require(IPAddress("127.0.0.1"))])
        if roots { configuration.rootsPEM = server.rootPEM }
        configuration.concurrency = concurrency
        configuration.queueLimit = queueLimit
        for (host, address) in [
            (Self.host, address), ("other.images.example.com", "127.0.0.1"), ("inner.images.example.com", "127.0.0.2"),
            ("wrong.example.org", "127.0.0.1"),
        ] {
            configuration.pinned.append(
                .init(host: host, port: server.port, address: try #require(IPAddress(address))))
        }
        let fetcher = try Fetcher(configuration)
        let result: Result<Void, any Error>
        do { result = .success(try await body(server, fetcher)) } catch { result = .failure(error) }
        await fetcher.close()
        await server.stop()
        try result.get()
    }

    private func request(
        _ server: PictureServer, _ path: String, hosts: Set<String> = [Self.host]
    ) -> FetchRequest {
        let port = server.port
        var request = FetchRequest(url: "https://\(Self.host):\(port)\(path)") {
            hosts.contains($0.host) && $0.port == port
        }
        request.timeout = .seconds(10)
        return request
    }

    /// Returns the code with which a fetch fails, or nil if it succeeds.
    private func failure(_ fetcher: Fetcher, _ request: FetchRequest) async -> FetchError.Code? {
        do throws(FetchError) {
            _ = try await fetcher.fetch(request)
            return nil
        } catch {
            #expect(!error.message.contains("key="), "\(error.message)")
            return error.code
        }
    }

    @Test func contentIsReturnedUnchangedWithItsValidators() async throws {
        try await self.withServer { server, fetcher in
            let picture = SampleFile.png(seed: 1)
            try server.answer("/a.png?key=1", .init(picture, headers: ["ETag": "\"one\"", "Last-Modified": "today"]))
            let response = try await fetcher.fetch(self.request(server, "/a.png?key=1"))
            #expect(response == .content(.init(body: picture, entityTag: "\"one\"", lastModified: "today")))
            let asked = try #require(server.requests.first)
            #expect(asked.host == "\(Self.host):\(server.port)")
            #expect(asked.headers.keys.sorted() == ["accept", "host", "user-agent"])
        }
    }

    @Test func aConnectionIsMadeWithAllChecksAndNothingIsSent() async throws {
        try await self.withServer { server, fetcher in
            for _ in 0..<2 { try await fetcher.connect(self.request(server, "/a.png")) }
            #expect(server.requests.isEmpty)
            var outside = self.request(server, "/a.png")
            outside.addresses = .publicOnly
            await #expect(throws: FetchError.self) { try await fetcher.connect(outside) }
            var wrong = FetchRequest(url: "https://wrong.example.org:\(server.port)/") { _ in true }
            wrong.timeout = .seconds(10)
            let error = await #expect(throws: FetchError.self) { try await fetcher.connect(wrong) }
            #expect(error?.code == .tls, "a certificate of another name")
            try server.answer("/a.png", .init([1]))
            #expect(await self.failure(fetcher, self.request(server, "/a.png")) == nil, "the fetcher goes on")
        }
    }

    /// Requests of all merchants share the connections of one fetcher.
    @Test func aKeptConnectionIsJudgedForEachRequest() async throws {
        try await self.withServer { server, fetcher in
            var answer = PictureServer.Answer([1])
            answer.keepsAlive = true
            try server.answer("/a.png", answer)
            let allowed = self.request(server, "/a.png")
            var outside = allowed
            outside.addresses = .publicOnly
            for _ in 0..<2 { #expect(await self.failure(fetcher, allowed) == nil) }
            let error = await #expect(throws: FetchError.self) { try await fetcher.fetch(outside) }
            #expect(error?.code == .addressNotAllowed)
            #expect(error?.mayHaveBeenSent == false)
            #expect(server.requests.count == 2)
            #expect(await self.failure(fetcher, allowed) == nil, "the fetcher goes on")
        }
    }

    /// A connection that another policy has made takes nothing from a request.
    @Test func aRequestWhosePolicyRefusesAKeptConnectionMakesItsOwn() async throws {
        let server = try await PictureServer.start(addresses: ["127.0.0.2"])
        let (one, two) = try (#require(IPAddress("127.0.0.1")), #require(IPAddress("127.0.0.2")))
        var configuration = FetcherConfiguration()
        configuration.rootsPEM = server.rootPEM
        configuration.lookUp = { _ in .success([two, one]) }
        let fetcher = try Fetcher(configuration)
        var answer = PictureServer.Answer([1])
        answer.keepsAlive = true
        try server.answer("/a.png", answer)
        var request = self.request(server, "/a.png")
        for address in [two, one, two] {
            request.addresses = AddressPolicy(exceptions: [address])
            #expect(await self.failure(fetcher, request) == nil)
        }
        #expect(server.requests.map(\.address) == ["127.0.0.2", "127.0.0.1", "127.0.0.2"])
        await fetcher.close()
        await server.stop()
    }

    @Test func unchangedContentIsNotSentAgain() async throws {
        try await self.withServer { server, fetcher in
            try server.answer("/a.png", .init([1, 2, 3], headers: ["ETag": "\"one\""]))
            var request = self.request(server, "/a.png")
            request.entityTag = "\"one\""
            request.lastModified = "bad\r\nX-Injected: 1"
            #expect(try await fetcher.fetch(request) == .notModified)
            #expect(server.requests.first?.condition == "\"one\"")
            #expect(server.requests.first?.headers["x-injected"] == nil)
            request.entityTag = "\"two\""
            guard case .content(let content) = try await fetcher.fetch(request) else {
                Issue.record("another tag means other content")
                return
            }
            #expect(content.body == [1, 2, 3])
        }
    }

    @Test func redirectsAreFollowedWithinTheAllowedHosts() async throws {
        try await self.withServer { server, fetcher in
            let other = "other.images.example.com"
            try server.answer("/1", .status(302, ["Location": "/2"]))
            try server.answer("/2", .status(301, ["Location": "https://\(other):\(server.port)/3"]))
            try server.answer("/3", .status(307, ["Location": "4"]))
            try server.answer("/4", .init([4]))
            let allowed = self.request(server, "/1", hosts: [Self.host, other])
            #expect(
                try await fetcher.fetch(allowed) == .content(.init(body: [4], entityTag: nil, lastModified: nil)))
            #expect(server.requests.map(\.path) == ["/1", "/2", "/3", "/4"])
            #expect(await self.failure(fetcher, self.request(server, "/1")) == .hostNotAllowed)
            #expect(server.requests.map(\.path).suffix(2) == ["/1", "/2"], "the other host was not asked")
        }
    }

    @Test func aLoopOfRedirectsEnds() async throws {
        try await self.withServer { server, fetcher in
            try server.answer("/loop", .status(302, ["Location": "/loop"]))
            #expect(await self.failure(fetcher, self.request(server, "/loop")) == .tooManyRedirects)
            #expect(server.requests.count == 4)
        }
    }

    @Test(arguments: [
        "http://cdn.example.com/", "file:///etc/passwd", "gopher://cdn.example.com/", "https://u:p@cdn.example.com/",
    ])
    func aRedirectDoesNotLeaveHTTPS(_ location: String) async throws {
        try await self.withServer { server, fetcher in
            try server.answer("/away", .status(302, ["Location": location]))
            #expect(await self.failure(fetcher, self.request(server, "/away")) == .url)
        }
    }

    @Test func aRedirectToAnInnerAddressIsNotConnectedTo() async throws {
        try await self.withServer { server, fetcher in
            let inner = "inner.images.example.com"
            for (path, host) in [("/name", inner), ("/number", "127.0.0.3"), ("/six", "[::1]")] {
                try server.answer(path, .status(302, ["Location": "https://\(host):\(server.port)/secret"]))
                let request = self.request(server, path, hosts: [Self.host, host])
                #expect(await self.failure(fetcher, request) == .addressNotAllowed)
            }
            #expect(!server.requests.contains { $0.path == "/secret" })
        }
    }

    @Test(arguments: ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.2", "fd00::1"])
    func aNameThatResolvesToAnInnerAddressIsNotConnectedTo(_ address: String) async throws {
        try await self.withServer(address: address) { server, fetcher in
            #expect(await self.failure(fetcher, self.request(server, "/a.png?key=1")) == .addressNotAllowed)
            #expect(server.requests.isEmpty)
        }
    }

    @Test func aHostThatIsNotAllowedIsNeverAsked() async throws {
        try await self.withServer { server, fetcher in
            #expect(await self.failure(fetcher, self.request(server, "/a.png", hosts: [])) == .hostNotAllowed)
            #expect(server.requests.isEmpty)
        }
    }

    @Test func aSlowBodyTimesOut() async throws {
        try await self.withServer { server, fetcher in
            var slow = PictureServer.Answer(SampleFile.png(seed: 1))
            slow.drip = 0.2
            try server.answer("/slow", slow)
            var request = self.request(server, "/slow")
            request.timeout = .milliseconds(700)
            let start = ContinuousClock.now
            #expect(await self.failure(fetcher, request) == .timeout)
            #expect(ContinuousClock.now - start < .seconds(5))
        }
    }

    @Test(arguments: [true, false])
    func contentThatIsTooLargeIsDropped(_ tellsLength: Bool) async throws {
        try await self.withServer { server, fetcher in
            var large = PictureServer.Answer([UInt8](repeating: 7, count: 100_001))
            large.tellsLength = tellsLength
            try server.answer("/large", large)
            var request = self.request(server, "/large")
            request.sizeLimit = 100_000
            #expect(await self.failure(fetcher, request) == .tooLarge)
            request.sizeLimit = 100_001
            #expect(await self.failure(fetcher, request) == nil)
        }
    }

    @Test func aBodyThatIsCutOffIsNoContent() async throws {
        try await self.withServer { server, fetcher in
            try server.answer("/cut", .init([1, 2, 3], headers: ["Content-Length": "10"]))
            #expect(await self.failure(fetcher, self.request(server, "/cut")) == .connection)
        }
    }

    @Test func compressedContentStaysCompressed() async throws {
        try await self.withServer { server, fetcher in
            // If it were inflated, a few bytes could become arbitrarily many.
            let bomb: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 0x4B, 4, 0, 0x43, 0xBE, 0xB7, 0xE8, 1, 0, 0, 0]
            try server.answer("/gzip", .init(bomb, headers: ["Content-Encoding": "gzip"]))
            let response = try await fetcher.fetch(self.request(server, "/gzip"))
            #expect(response == .content(.init(body: bomb, entityTag: nil, lastModified: nil)))
        }
    }

    @Test func tooManyHeaderLinesEndTheTransfer() async throws {
        try await self.withServer { server, fetcher in
            let headers = Dictionary(
                uniqueKeysWithValues: (0..<90).map { ("X-\($0)", String(repeating: "x", count: 1000)) })
            try server.answer("/headers", .init([1], headers: headers))
            #expect(await self.failure(fetcher, self.request(server, "/headers")) == .malformed)
        }
    }

    @Test func certificatesAreChecked() async throws {
        try await self.withServer(roots: false) { server, fetcher in
            #expect(await self.failure(fetcher, self.request(server, "/a.png")) == .tls, "an unknown root")
        }
        try await self.withServer { server, fetcher in
            var request = self.request(server, "/a.png", hosts: ["wrong.example.org"])
            request.url = "https://wrong.example.org:\(server.port)/a.png"
            #expect(await self.failure(fetcher, request) == .tls, "another name")
            #expect(server.requests.isEmpty)
        }
    }

    @Test func anErrorStatusIsReportedWithItsRetryAfter() async throws {
        try await self.withServer { server, fetcher in
            #expect(await self.failure(fetcher, self.request(server, "/none?key=1")) == .status(404))
            try server.answer("/busy", .status(503, ["Retry-After": "120"]))
            let error = await #expect(throws: FetchError.self) {
                try await fetcher.fetch(self.request(server, "/busy"))
            }
            #expect(error?.code == .status(503))
            #expect(error?.retryAfterSeconds == 120)
        }
    }

    @Test func anUnreachableServerIsAFailedConnection() async throws {
        try await self.withServer { server, fetcher in
            await server.stop()
            #expect(await self.failure(fetcher, self.request(server, "/a.png")) == .connection)
        }
    }

    @Test func cancellingEndsATransferAtOnce() async throws {
        try await self.withServer(concurrency: 1) { server, fetcher in
            var slow = PictureServer.Answer([1])
            slow.delay = 8
            try server.answer("/slow", slow)
            let start = ContinuousClock.now
            try await withThrowingTaskGroup { group in
                // One fetch in flight and one in the queue.
                for _ in 0..<2 { group.addTask { await self.failure(fetcher, self.request(server, "/slow")) } }
                while server.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
                group.cancelAll()
                for try await code in group { #expect(code == .cancelled) }
            }
            #expect(ContinuousClock.now - start < .seconds(5))
        }
    }

    @Test func concurrentFetchesAndTheQueueAreBounded() async throws {
        try await self.withServer(concurrency: 2, queueLimit: 3) { server, fetcher in
            var slow = PictureServer.Answer([1])
            slow.delay = 1
            try server.answer("/slow", slow)
            let codes = await withTaskGroup(of: FetchError.Code?.self) { group in
                for _ in 0..<10 { group.addTask { await self.failure(fetcher, self.request(server, "/slow")) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.contains(.busy))
            #expect(codes.count { $0 == nil } >= 3)
            #expect(codes.allSatisfy { $0 == nil || $0 == .busy })
        }
    }

    @Test func closingFailsEveryWaitingFetch() async throws {
        try await self.withServer(concurrency: 1) { server, fetcher in
            var slow = PictureServer.Answer([1])
            slow.delay = 8
            try server.answer("/slow", slow)
            await withTaskGroup(of: FetchError.Code?.self) { group in
                for _ in 0..<3 { group.addTask { await self.failure(fetcher, self.request(server, "/slow")) } }
                while server.requests.isEmpty { await Task.yield() }
                await fetcher.close()
                for await code in group { #expect(code == .closed) }
            }
            #expect(await self.failure(fetcher, self.request(server, "/slow")) == .closed)
        }
    }

    /// A caller that moves money must know if anything can have happened.
    @Test func aTransferThatIsEndedTellsIfItsRequestWasSent() async throws {
        try await self.withServer(concurrency: 1) { server, fetcher in
            var slow = PictureServer.Answer([1])
            slow.delay = 8
            try server.answer("/slow", slow)
            let hasEnded = Atomic<Bool>(false)
            fetcher.whenEnded { hasEnded.store(true, ordering: .releasing) }
            try await withThrowingTaskGroup(of: Bool?.self) { group in
                // One fetch in flight and one in the queue.
                for _ in 0..<2 {
                    group.addTask {
                        do throws(FetchError) {
                            _ = try await fetcher.fetch(self.request(server, "/slow"))
                            return nil
                        } catch { return error.mayHaveBeenSent }
                    }
                }
                while server.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
                let isOver = hasEnded.load(ordering: .acquiring)
                #expect(!isOver)
                await fetcher.close()
                var sent: [Bool?] = []
                for try await one in group { sent.append(one) }
                #expect(sent.count { $0 == true } == 1)
                #expect(sent.count { $0 == false } == 1)
            }
            let isOver = hasEnded.load(ordering: .acquiring)
            #expect(isOver)
        }
    }

    /// The bytes that each thread of this process has read from files, and from anything else that is read like one.
    private static func bytesRead() throws -> [String: Int] {
        var bytes: [String: Int] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
            // A thread may have ended.
            let text = try? String(contentsOf: URL(filePath: "/proc/self/task/\(thread)/io"), encoding: .utf8)
            let line = text?.split(separator: "\n").first { $0.hasPrefix("rchar: ") }
            bytes[thread] = line.flatMap { Int($0.dropFirst(7)) }
        }
        return bytes
    }

    private static let systemRoots = "/etc/ssl/certs/ca-certificates.crt"

    @Test(.enabled(if: FileManager.default.fileExists(atPath: FetcherTests.systemRoots)))
    func theSystemsRootsAreParsedOnce() async throws {
        let size = try Data(contentsOf: URL(filePath: Self.systemRoots)).count
        try #require(size > 50_000, "a file with the usual roots")
        try await self.withServer(roots: false) { server, fetcher in
            var request = self.request(server, "/a.png")
            request.isAlone = true
            #expect(await self.failure(fetcher, request) == .tls)
            let before = try Self.bytesRead()
            for _ in 0..<200 { #expect(await self.failure(fetcher, request) == .tls) }
            // The threads of other tests read as well, but not 100 times as much.
            let most = try Self.bytesRead().map { $0.value - (before[$0.key] ?? 0) }.max()
            #expect(try #require(most) < size * 100)
        }
    }
}
