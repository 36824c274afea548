import ArgumentParser
import Lua
import Model
import Operations

/// `waybill-packager ingest lint`: mistakes in programs that need no record.
struct IngestLintCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lint",
        abstract: "Finds mistakes in the sources' files: names that do not exist, members that no order has.",
        discussion: """
            It loads each source, and reads the text of its program. Members are looked for in the tables that may be \
            parts of a change, not in those that the program only looks into. The program is not run, so such a \
            finding is a note only. Exit codes: 0: no mistake, perhaps notes; 1: a source cannot be loaded, or names a \
            global or a function of the library that does not exist.
            """)

    @Argument(help: "Sources; default: all.")
    var names: [String] = []
    @OptionGroup var sources: SourcesOption

    func run() async throws {
        let (directory, names) = try self.sources.chosen(self.names)
        let sandbox = try self.sources.sandbox()
        var isWell = true
        for name in names {
            do throws(SourceError) {
                let source = try Source.load(folder: "\(directory)/\(name)", name: name, in: sandbox)
                let lint = ProgramLint(String(decoding: source.program.text, as: UTF8.self))
                for finding in lint.globals { StandardStream.output.write("\(name)/\(finding)\n") }
                for finding in lint.members { StandardStream.output.write("\(name)/\(finding)\n") }
                if !lint.globals.isEmpty { isWell = false }
            } catch {
                StandardStream.output.write("\(error)\n")
                isWell = false
            }
        }
        if !isWell { throw ExitCode(1) }
    }
}
