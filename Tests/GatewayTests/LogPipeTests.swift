import Foundation
import Glibc
import TestKit
import TestTraits
import Testing

/// A pipe with a name whose reader reads when it is asked to.
final class NamedPipe {
    let path: String
    private let directory: TemporaryDirectory
    private let descriptor: Int32
    private var text = ""

    /// - Parameter bytes: those that fit until a writer has to wait.
    init(bytes: Int32 = 4096) throws {
        self.directory = try TemporaryDirectory("pipe")
        self.path = self.directory.path("log")
        try #require(unsafe mkfifo(self.path, 0o600) == 0)
        self.descriptor = unsafe open(self.path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        // F_SETPIPE_SZ, which Swift does not import. Source: fcntl(2)
        _ = fcntl(self.descriptor, 1031, bytes)
    }

    deinit { close(self.descriptor) }

    /// Reads until a line satisfies a condition; returns all lines up to it, and forgets them.
    @discardableResult
    func line(where matches: (Substring) -> Bool) async throws -> [Substring] {
        var found: [Substring] = []
        try await eventually("a line in the pipe") {
            var bytes = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = unsafe read(self.descriptor, &bytes, bytes.count)
                guard count > 0 else { break }
                self.text += String(decoding: bytes[..<count], as: UTF8.self)
            }
            let lines = self.text.split(separator: "\n", omittingEmptySubsequences: false)
            guard let index = lines.dropLast().firstIndex(where: matches) else { return false }
            found = Array(lines[...index])
            self.text = lines[(index + 1)...].joined(separator: "\n")
            return true
        }
        return found
    }
}

/// The gateway's log in a pipe that nobody reads.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct LogPipeTests {
    private static func post(_ gateway: GatewayProcess, _ messages: [String], from client: Int) async throws -> Int {
        let body = "[\(messages.map { "\"\($0)\"" }.joined(separator: ","))]"
        return try await RawConnection.once(
            port: gateway.port,
            "POST /apple/v1/log HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.\(client).7\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        ).status
    }

    @Test func aLogThatNobodyReadsStopsNoRequest() async throws {
        let pipe = try NamedPipe()
        let gateway = try await GatewayProcess(
            environment: ["WAYBILL_DEVICE_LOGS": "on", "WAYBILL_TRUSTED_PROXIES": "127.0.0.1"], log: pipe)
        let padding = String(repeating: "x y ", count: 100)
        for request in 0..<10 {
            let messages = (0..<5).map { "said \(request) \($0) \(padding)" }
            #expect(try await Self.post(gateway, messages, from: request) == 200)
        }
        // On both event loops: each connection goes to the next of them.
        for _ in 0..<8 {
            let answer = try await RawConnection.once(port: gateway.port, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(answer.status == 404)
        }
        let lines = try await pipe.line { $0.contains("said 9 4") }
        let said = lines.compactMap { $0.firstMatch(of: #/said \d \d/#).map { String($0.output) } }
        #expect(said == (0..<10).flatMap { request in (0..<5).map { "said \(request) \($0)" } })
        await gateway.stop()
    }
}
