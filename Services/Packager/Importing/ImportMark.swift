import Model
import Operations

/// The part of a file that was imported, as the file `FILE.imported` beside it says.
struct ImportMark: Hashable, Sendable {
    /// Bytes of the file, and nanoseconds since 1970 when it was written: a mark of another content does not count.
    let size: Int64
    let changedNanoseconds: Int64
    /// The place after the last line that Kafka has.
    var place: Int64 = 0
    /// Lines up to there.
    var lines = 0

    private static let members = ["size", "changedNanoseconds", "place", "lines"]

    init(size: Int64, changedNanoseconds: Int64) {
        self.size = size
        self.changedNanoseconds = changedNanoseconds
    }

    /// Returns the mark that an earlier run left; nil without one, or for another content.
    func left(by path: String) -> ImportMark? {
        guard let text = try? FileContent.read(path, limit: 4096), let object = (try? JSON(parsing: text))?.object
        else { return nil }
        let numbers = Self.members.compactMap { object[$0]?.integer }
        guard numbers.count == Self.members.count, numbers[0] == self.size, numbers[1] == self.changedNanoseconds,
            (0...self.size).contains(numbers[2]), let lines = Int(exactly: numbers[3]), lines >= 0
        else { return nil }
        var mark = self
        (mark.place, mark.lines) = (numbers[2], lines)
        return mark
    }

    func write(to path: String) throws(FileContent.Failure) {
        let json: JSON = [
            "size": .integer(self.size), "changedNanoseconds": .integer(self.changedNanoseconds),
            "place": .integer(self.place), "lines": .integer(Int64(self.lines)),
        ]
        try PrivateFile.write(json.serialized, to: path)
    }
}
