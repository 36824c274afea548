extension JSON {
    /// The value as UTF-8, without white space, members sorted by name: equal values give equal bytes.
    public var serialized: [UInt8] {
        var output = JSONOutput(capacity: 1024)
        self.write(to: &output)
        return output.bytes
    }

    /// The value as text, for messages and logs.
    public var text: String { String(decoding: self.serialized, as: UTF8.self) }

    /// Appends the value.
    func write(to output: inout JSONOutput) {
        switch self {
        case .null: output.append(text: "null")
        case .bool(let value): output.append(text: value ? "true" : "false")
        case .number(let value): output.append(text: value.text)
        case .string(let value): output.append(quoted: value)
        case .array(let elements):
            // A span lends its elements, whereas iterating over an array would take a reference to each of them.
            let elements = elements.span
            output.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                elements[index].write(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let object): object.write(to: &output)
        }
    }
}

extension JSONObject {
    /// As `JSON.serialized`.
    public var serialized: [UInt8] {
        var output = JSONOutput(capacity: 8192)
        self.write(to: &output)
        return output.bytes
    }

    /// Appends the object.
    func write(to output: inout JSONOutput) {
        output.append(UInt8(ascii: "{"))
        self.writeMembers(to: &output)
        output.append(UInt8(ascii: "}"))
    }

    /// Appends the members with commas between them.
    func writeMembers(to output: inout JSONOutput) {
        let members = self.members.span
        for index in members.indices {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append(quoted: members[index].name)
            output.append(UInt8(ascii: ":"))
            members[index].value.write(to: &output)
        }
    }
}
