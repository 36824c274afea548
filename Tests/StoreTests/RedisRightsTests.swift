import Foundation
import TestKit
import Testing

/// The rights that `Shared/Redis/README.md` tells operators to grant, against the commands that the code sends and the
/// rights with which `ClusterStoreTests` runs.
@Suite struct RedisRightsTests {
    /// Commands that need no right of that user: AUTH is open to all, SENTINEL goes to sentinels.
    private static let free: Set<String> = ["auth", "sentinel"]

    /// Returns the words of the document's `ACL SETUSER waybill`, without these.
    private static func documented() throws -> [String] {
        let text = try String(contentsOf: Repository.root.appending(path: "Shared/Redis/README.md"), encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("ACL SETUSER waybill ") })
        return line.split(separator: " ").dropFirst(3).map(String.init)
    }

    /// Returns the commands that a source sends or calls in a script, as rights name them: `get`, `cluster|slots`.
    private static func commands(in text: String) -> Set<String> {
        let call =
            #/
            (?: RedisCommand\(\[? | self\.command\( | RedisArgument\]\x20=\x20\[ | redis\.p?call\( )
            \s* ["'] ([A-Z]+) ["'] (?: ,\x20["'] ([A-Z]+) ["'] )?
            /#
        return Set(
            text.matches(of: call).map { match in
                [match.output.1, match.output.2].compactMap { $0?.lowercased() }.joined(separator: "|")
            })
    }

    @Test func theReadmeGrantsExactlyTheCommandsThatAreSent() throws {
        var sent: Set<String> = []
        for room in ["Shared/Redis", "Shared/Store", "Services"] {
            let folder = Repository.root.appending(path: room)
            for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path())
            where path.hasSuffix(".swift") {
                let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
                guard text.contains("RedisCommand") || text.contains("redis.call") else { continue }
                sent.formUnion(Self.commands(in: text))
            }
        }
        #expect(sent.isSuperset(of: Self.free))
        let granted = try Self.documented().filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) }
        #expect(granted.count == Set(granted).count)
        #expect(sent.subtracting(Self.free).subtracting(granted).sorted() == [], "sent without a right")
        #expect(Set(granted).subtracting(sent).sorted() == [], "granted and never sent")
    }

    @Test func theStoreIsTestedWithTheDocumentedPermissions() throws {
        #expect(
            try Self.documented().filter { $0 != ">password" } == ClusterStoreTests.rights.filter { $0 != ">secret" })
    }

    @Test func commandsAreExtractedFromSourceText() {
        let text = """
            RedisCommand("HGET", .string(key)), RedisCommand(["SCRIPT", "LOAD", .string(source)])
            RedisCommand(
                "SET", .string(key)) ; let arguments: [RedisArgument] = [
                "SCAN"]; redis.call('TYPE', KEYS[1]) redis.pcall('CLUSTER', 'SLOTS') redis.call(
              'ZADD', 1)
            """
        #expect(
            Self.commands(in: text) == ["hget", "script|load", "set", "scan", "type", "cluster|slots", "zadd"])
    }
}
