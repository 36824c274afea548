/// The reason why bytes that Waybill itself once wrote cannot be read, in a sentence with the JSON path.
///
/// It contains no values, since records contain tokens.
public struct RecordError: Error, Hashable, Sendable, CustomStringConvertible {
    public let message: String

    init(_ message: String) { self.message = message }

    public var description: String { self.message }

    /// The format of the records that Waybill writes to its own topics: their member `format`. A record of another one
    /// is not read, since its other members may mean something else.
    /// Source: Design §3
    static let format: Int64 = 1

    /// - Parameter what: the beginning of the sentence.
    static func json(_ bytes: [UInt8], _ what: String) throws(RecordError) -> JSON {
        do {
            return try JSON(parsing: bytes)
        } catch {
            // The parser's messages may repeat a member's name, never a value.
            throw RecordError("reading \(what): \(error)")
        }
    }

    /// Reads a record of this format.
    static func members(_ bytes: [UInt8], _ what: String) throws(RecordError) -> JSONMembers<RecordError> {
        var members = try JSONMembers(try Self.json(bytes, what), path: "$", failure: RecordError.init)
        guard try members.value("format").integer == Self.format else {
            throw members.wrong("format", "must be \(Self.format), which this version of Waybill reads")
        }
        return members
    }
}
