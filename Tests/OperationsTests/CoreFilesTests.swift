import Foundation
import Glibc
import TestTraits
import Testing

@testable import Operations

/// Core files, of this process: no test needs one.
@Suite struct CoreFilesTests {
    @Test func memoryIsKeptOutOfCoreFiles() throws {
        #expect(CoreFiles.forbid())
        var limit = rlimit(rlim_cur: 1, rlim_max: 1)
        #expect(unsafe getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0)
        #expect(limit.rlim_cur == 0)
        let filter = try String(contentsOfFile: "/proc/self/coredump_filter", encoding: .utf8)
        #expect(filter.trimmingCharacters(in: .newlines) == "00000000")
    }
}
