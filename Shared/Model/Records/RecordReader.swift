/// Reads the required members of an object; members that it is not asked for are ignored.
struct RecordReader {
    private let object: JSONObject
    private let path: String

    init(_ json: JSON, path: String) throws(RecordError) {
        guard case .object(let object) = json else {
            throw RecordError("\(path) must be an object, it is \(json.kind)")
        }
        self.object = object
        self.path = path
    }

    /// Returns true if a member exists.
    func has(_ name: String) -> Bool { self.object[name] != nil }

    func value(_ name: String) throws(RecordError) -> JSON {
        guard let value = self.object[name] else { throw RecordError("\(self.path).\(name) is missing") }
        return value
    }

    func string(_ name: String) throws(RecordError) -> String {
        guard let string = try self.value(name).string else { throw self.error(name, "a string") }
        return string
    }

    func array(_ name: String) throws(RecordError) -> [JSON] {
        guard let array = try self.value(name).array else { throw self.error(name, "an array") }
        return array
    }

    func object(_ name: String) throws(RecordError) -> JSONObject {
        guard let object = try self.value(name).object else { throw self.error(name, "an object") }
        return object
    }

    func integer(_ name: String, in range: ClosedRange<Int64>) throws(RecordError) -> Int64 {
        guard let integer = try self.value(name).integer, range.contains(integer) else {
            throw self.error(name, "an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return integer
    }

    /// Refuses a record of another format.
    func checkFormat() throws(RecordError) {
        guard try self.value("format").integer == RecordError.format else {
            throw self.error("format", "\(RecordError.format), the format that this version of Waybill reads")
        }
    }

    /// Makes an identifier of a string; the error has the path if it cannot be one.
    func identifier<Identifier>(
        _ name: String, _ make: (String) throws(IdentifierError) -> Identifier
    ) throws(RecordError) -> Identifier {
        let text = try self.string(name)
        do {
            return try make(text)
        } catch {
            throw RecordError("\(self.path).\(name) is wrong: \(error)")
        }
    }

    private func error(_ name: String, _ expected: String) -> RecordError {
        RecordError("\(self.path).\(name) must be \(expected), it is \((self.object[name] ?? .null).kind)")
    }
}
