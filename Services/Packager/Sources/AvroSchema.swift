import Model

/// A schema of Avro, as a writer's registry has it.
///
/// Bounded: nesting by `depthLimit`, types by `typeLimit`; a record may contain itself.
/// Source: Apache Avro 1.11 specification, "Schema Declaration"
struct AvroSchema: Sendable {
    static let depthLimit = 32
    static let typeLimit = 10_000

    indirect enum Kind: Sendable {
        case null, boolean, int, long, float, double, bytes, string
        case fixed(Int)
        case symbols([String])
        case array(of: Int)
        case map(of: Int)
        case union([Int])
        case record([(name: String, type: Int)])
    }

    /// The meaning of a value beyond its type.
    enum Meaning: Hashable, Sendable {
        case decimal(scale: Int)
        case date
        /// A moment in so many parts of a second.
        case moment(parts: Int64)
        /// A local time, without a zone.
        case local(parts: Int64)
        /// Debezium's decimal with its own scale.
        case variableDecimal
    }

    struct Node: Sendable {
        var kind: Kind
        var meaning: Meaning?
        /// The fewest bytes of a value; a record that contains itself counts as 0 inside itself.
        var leastSize = 0
    }

    /// The types; the first one is that of a record's value.
    private(set) var nodes: [Node] = []
    let root: Int

    /// - Throws: `AvroError` with the path of the fault.
    init(_ json: JSON, references: [JSON] = []) throws(AvroError) {
        var builder = Builder()
        for reference in references { _ = try builder.type(reference, namespace: "", path: "$", depth: 0) }
        let root = try builder.type(json, namespace: "", path: "$", depth: 0)
        builder.measure()
        self.root = root
        self.nodes = builder.nodes
    }

    private struct Builder {
        var nodes: [Node] = []
        private var named: [String: Int] = [:]

        private static let primitives: [String: Kind] = [
            "null": .null, "boolean": .boolean, "int": .int, "long": .long, "float": .float, "double": .double,
            "bytes": .bytes, "string": .string,
        ]

        private mutating func add(_ kind: Kind, _ meaning: Meaning? = nil, _ path: String) throws(AvroError) -> Int {
            guard self.nodes.count < AvroSchema.typeLimit else { throw AvroError("\(path): too many types") }
            self.nodes.append(Node(kind: kind, meaning: meaning))
            return self.nodes.count - 1
        }

        mutating func type(
            _ json: JSON, namespace: String, path: String, depth: Int
        ) throws(AvroError) -> Int {
            guard depth < AvroSchema.depthLimit else { throw AvroError("\(path): nested too deeply") }
            switch json {
            case .string(let name):
                if let kind = Self.primitives[name] { return try self.add(kind, nil, path) }
                let full = name.contains(".") || namespace.isEmpty ? name : "\(namespace).\(name)"
                guard let index = self.named[full] ?? self.named[name] else {
                    throw AvroError("\(path): the type \(clip(name)) is not defined")
                }
                return index
            case .array(let branches):
                guard !branches.isEmpty, branches.count <= 256 else {
                    throw AvroError("\(path): a union has 1 to 256 types")
                }
                var types: [Int] = []
                for (index, branch) in branches.enumerated() {
                    types.append(
                        try self.type(branch, namespace: namespace, path: "\(path)[\(index)]", depth: depth + 1))
                }
                return try self.add(.union(types), nil, path)
            case .object(let object): return try self.type(object, namespace, path, depth)
            default: throw AvroError("\(path): a schema is a text, a list or an object, it is \(json.kind)")
            }
        }

        private mutating func type(
            _ object: JSONObject, _ namespace: String, _ path: String, _ depth: Int
        ) throws(AvroError) -> Int {
            guard let type = object["type"] else { throw AvroError("\(path).type is missing") }
            guard let name = type.string else {
                return try self.type(type, namespace: namespace, path: "\(path).type", depth: depth + 1)
            }
            if let kind = Self.primitives[name] {
                return try self.add(kind, try Self.meaning(object, kind, path), path)
            }
            switch name {
            case "array":
                let items = try self.type(
                    object["items"] ?? .null, namespace: namespace, path: "\(path).items", depth: depth + 1)
                return try self.add(.array(of: items), nil, path)
            case "map":
                let values = try self.type(
                    object["values"] ?? .null, namespace: namespace, path: "\(path).values", depth: depth + 1)
                return try self.add(.map(of: values), nil, path)
            case "fixed":
                guard let size = object["size"]?.integer, (0...(1 << 20)).contains(size) else {
                    throw AvroError("\(path).size must be from 0 to 1048576")
                }
                let kind = Kind.fixed(Int(size))
                let index = try self.add(kind, try Self.meaning(object, kind, path), path)
                _ = try self.define(object, namespace, path, index)
                return index
            case "enum":
                let symbols = (object["symbols"]?.array ?? []).compactMap(\.string)
                guard !symbols.isEmpty else { throw AvroError("\(path).symbols must be texts") }
                let index = try self.add(.symbols(symbols), nil, path)
                _ = try self.define(object, namespace, path, index)
                return index
            case "record", "error": return try self.record(object, namespace, path, depth)
            default: return try self.type(type, namespace: namespace, path: "\(path).type", depth: depth + 1)
            }
        }

        private mutating func record(
            _ object: JSONObject, _ namespace: String, _ path: String, _ depth: Int
        ) throws(AvroError) -> Int {
            let isVariable = object["connect.name"] == "io.debezium.data.VariableScaleDecimal"
            let index = try self.add(.record([]), isVariable ? .variableDecimal : nil, path)
            let inner = try self.define(object, namespace, path, index)
            var fields: [(name: String, type: Int)] = []
            var names: Set<String> = []
            for (position, field) in (object["fields"]?.array ?? []).enumerated() {
                let place = "\(path).fields[\(position)]"
                guard let name = field.object?["name"]?.string, names.insert(name).inserted,
                    let type = field.object?["type"]
                else { throw AvroError("\(place) needs a name of its own, and a type") }
                let inside = try self.type(type, namespace: inner, path: place, depth: depth + 1)
                fields.append((name, inside))
            }
            self.nodes[index].kind = .record(fields)
            return index
        }

        /// Makes a type known by its name.
        ///
        /// - Returns: the namespace inside it.
        private mutating func define(
            _ object: JSONObject, _ namespace: String, _ path: String, _ index: Int
        ) throws(AvroError) -> String {
            guard let name = object["name"]?.string, !name.isEmpty else { throw AvroError("\(path).name is missing") }
            var space = object["namespace"]?.string ?? namespace
            if let dot = name.lastIndex(of: ".") { space = String(name[..<dot]) }
            let full = name.contains(".") || space.isEmpty ? name : "\(space).\(name)"
            self.named[full] = index
            return space
        }

        /// Returns the meaning of a type; that of another type is ignored.
        private static func meaning(
            _ object: JSONObject, _ kind: Kind, _ path: String
        ) throws(AvroError) -> Meaning? {
            switch (kind, object["connect.name"]?.string) {
            case (.int, "io.debezium.time.Date"?), (.int, "org.apache.kafka.connect.data.Date"?): return .date
            case (.long, "io.debezium.time.Timestamp"?): return .moment(parts: 1000)
            case (.long, "io.debezium.time.MicroTimestamp"?): return .moment(parts: 1_000_000)
            case (.long, "io.debezium.time.NanoTimestamp"?): return .moment(parts: 1_000_000_000)
            default: break
            }
            switch (kind, object["logicalType"]?.string) {
            case (.bytes, "decimal"?), (.fixed, "decimal"?):
                let scale = object["scale"]?.integer ?? 0
                guard (0...64).contains(scale) else { throw AvroError("\(path).scale must be from 0 to 64") }
                return .decimal(scale: Int(scale))
            case (.int, "date"?): return .date
            case (.long, "timestamp-millis"?): return .moment(parts: 1000)
            case (.long, "timestamp-micros"?): return .moment(parts: 1_000_000)
            case (.long, "timestamp-nanos"?): return .moment(parts: 1_000_000_000)
            case (.long, "local-timestamp-millis"?): return .local(parts: 1000)
            case (.long, "local-timestamp-micros"?): return .local(parts: 1_000_000)
            default: return nil
            }
        }

        /// Finds the fewest bytes of each type.
        mutating func measure() {
            for index in self.nodes.indices {
                var open: Set<Int> = []
                self.nodes[index].leastSize = self.leastSize(index, &open)
            }
        }

        private func leastSize(_ index: Int, _ open: inout Set<Int>) -> Int {
            // A type that was measured needs no second look; types come after those inside, except for records.
            if self.nodes[index].leastSize > 0 { return self.nodes[index].leastSize }
            guard open.count < AvroSchema.depthLimit, open.insert(index).inserted else { return 0 }
            defer { open.remove(index) }
            switch self.nodes[index].kind {
            case .null: return 0
            case .boolean, .int, .long, .bytes, .string, .symbols, .array, .map: return 1
            case .float: return 4
            case .double: return 8
            case .fixed(let size): return size
            case .union(let types):
                // The number of the branch, and the smallest of them; one that may be null decides at once.
                var least = Int.max
                for type in types where least > 0 { least = min(least, self.leastSize(type, &open)) }
                return 1 + least
            case .record(let fields):
                // One byte is enough to refuse a count that does not fit.
                for field in fields {
                    let size = self.leastSize(field.type, &open)
                    if size > 0 { return size }
                }
                return 0
            }
        }
    }
}

/// The reason why bytes are not a value of a schema, or a schema is none.
struct AvroError: Error, Hashable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Returns the beginning of a text, for messages.
private func clip(_ text: String) -> String { String(text.unicodeScalars.prefix(60)) }
