import Foundation
import TestTraits
import Testing

@testable import TestKit

@Suite(.server) struct ChildProcessTests {
    @Test func exitCodeStandardOutputAndStandardErrorAreCaptured() async throws {
        let child = try ChildProcess("sh", ["-c", "echo out; echo err >&2; exit 7"])
        #expect(try await child.exit(within: .seconds(10)) == .code(7))
        #expect(child.output.contains("out\n"))
        #expect(child.output.contains("err\n"))
    }

    @Test func aMissingProgramExitsWithCode127() async throws {
        #expect(try await ChildProcess("waybill-no-such-program").exit(within: .seconds(10)) == .code(127))
    }

    @Test func aProgramThatIgnoresSIGTERMIsKilledAfterTheGracePeriod() async throws {
        let child = try ChildProcess("sh", ["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
        try await child.line(containing: "ready")
        #expect(await child.stop(grace: .milliseconds(100)) == .signal(SIGKILL))
        #expect(!exists(child.processIdentifier))
    }

    @Test func waitingForALineFailsAtTheDeadlineOrWhenTheProgramExits() async throws {
        let silent = try ChildProcess("sleep", ["30"])
        await #expect(throws: ChildProcess.Failure.self) {
            try await silent.line(containing: "ready", within: .milliseconds(50))
        }
        #expect(await silent.stop() == .signal(SIGTERM))
        let short = try ChildProcess("echo", ["other"])
        await #expect(throws: ChildProcess.Failure.self) { try await short.line(containing: "ready") }
    }

    @Test func stoppingAProgramStopsItsChildren() async throws {
        let child = try ChildProcess("sh", ["-c", "sleep 30 & echo $!; wait"])
        let sleeper = try #require(Int32(try await child.line(where: { Int32($0) != nil })))
        #expect(isRunning(sleeper))
        #expect(await child.stop() == .signal(SIGTERM))
        try await isGone(sleeper)
    }

    @Test func aProgramAndItsChildrenAreKilledWhenTheLifelineCloses() async throws {
        let child = try ChildProcess("sh", ["-c", "sleep 30 & echo $!; wait"])
        let sleeper = try #require(Int32(try await child.line(where: { Int32($0) != nil })))
        child.closeLifeline()
        #expect(try await child.exit(within: .seconds(5)) == .signal(SIGKILL))
        try await isGone(sleeper)
    }

    @Test func droppingTheLastReferenceKillsTheProgram() async throws {
        var child: ChildProcess? = try ChildProcess("sleep", ["30"])
        let identifier = try #require(child?.processIdentifier)
        #expect(isRunning(identifier))
        child = nil
        try await isGone(identifier)
    }

    @Test func aProgramInheritsOnlyItsStandardDescriptors() async throws {
        let child = try ChildProcess("ls", ["/proc/self/fd"])
        #expect(try await child.exit(within: .seconds(10)) == .code(0))
        // 3 is the folder that ls reads.
        #expect(child.output.split(separator: "\n") == ["0", "1", "2", "3"])
    }
}

private func isGone(_ process: Int32) async throws {
    let deadline = ContinuousClock.now + .seconds(5)
    while isRunning(process) {
        try #require(ContinuousClock.now < deadline)
        await Task.yield()
    }
}

private func exists(_ process: Int32) -> Bool { kill(process, 0) == 0 }

/// Returns false also for a zombie that has not been reaped yet.
private func isRunning(_ process: Int32) -> Bool {
    guard let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
    return !stat.contains(") Z ")
}
