import Model

/// A schema of Avro, as a writer's registry has it.
///
/// Bounded: the values in it by `depthLimit`, types by `typeLimit`, names by `nameLimit`; a record may contain itself.
/// Source: Apache Avro 1.12 specification, "Schema Declaration"
struct AvroSchema: Sendable {
    /// The depth of records, lists and maps, in a schema and in a value: that of JSON.
    static let depthLimit = JSON.depthLimit
    static let typeLimit = 10_000
    /// The most bytes of the name of a type, of a field, and of a symbol: each value has a copy.
    static let nameLimit = 255
    /// The depth of a schema's text: a record in a record is an object in a field in a list of an object, with a union
    /// and an object with its `type` around it.
    private static let textDepth = 6 * (depthLimit + 1)

    indirect enum Kind: Sendable {
        case null, boolean, int, long, float, double, bytes, string
        case fixed(Int)
        case symbols([String])
        case array(of: Int)
        case map(of: Int)
        case union([Int])
        /// With the fields' names as members of JSON: in quotes, with a colon.
        case record([(quoted: [UInt8], type: Int)])
    }

    struct Node: Sendable {
        var kind: Kind
        var meaning: LogicalType?
        /// True if each value has at least one byte.
        var hasBytes = false
    }

    /// The types. That of a record's value is `root`.
    private(set) var nodes: [Node] = []
    let root: Int

    /// - Throws: `AvroError` with the path of the fault.
    init(_ text: [UInt8]) throws(AvroError) {
        var builder = Builder()
        try builder.add(text)
        self.init(builder)
    }

    /// - Parameter builder: has the schema, added last, and before it those that it refers to.
    init(_ builder: Builder) {
        self.root = builder.root
        self.nodes = builder.measured()
    }

    /// Reads schemas one after another: each may name types of those before.
    struct Builder {
        private var nodes: [Node] = []
        private var named: [String: Int] = [:]
        /// The type that was added last.
        private(set) var root = 0

        private static let primitives: [String: Kind] = [
            "null": .null, "boolean": .boolean, "int": .int, "long": .long, "float": .float, "double": .double,
            "bytes": .bytes, "string": .string,
        ]

        /// Adds a schema by its text, which is not kept.
        mutating func add(_ text: [UInt8]) throws(AvroError) {
            let json: JSON
            do { json = try JSON(parsing: text, depth: AvroSchema.textDepth) } catch {
                throw AvroError("it is not JSON: \(error)")
            }
            self.root = try self.type(json, namespace: "", path: "$", depth: 0)
        }

        private mutating func add(
            _ kind: Kind, _ meaning: LogicalType? = nil, _ path: String
        ) throws(AvroError) -> Int {
            guard self.nodes.count < AvroSchema.typeLimit else { throw AvroError("\(path): too many types") }
            self.nodes.append(Node(kind: kind, meaning: meaning))
            return self.nodes.count - 1
        }

        /// Returns a name of a type, a field or a symbol; nil if it is none, or too long.
        private static func name(_ json: JSON?) -> String? {
            json?.string.flatMap { (1...AvroSchema.nameLimit).contains($0.utf8.count) ? $0 : nil }
        }

        /// - Parameter depth: that of records, lists and maps around the type; texts bound that of unions.
        private mutating func type(
            _ json: JSON, namespace: String, path: String, depth: Int
        ) throws(AvroError) -> Int {
            guard depth <= AvroSchema.depthLimit else {
                throw AvroError("\(path): records are nested deeper than \(AvroSchema.depthLimit) levels")
            }
            switch json {
            case .string(let name):
                if let kind = Self.primitives[name] { return try self.add(kind, nil, path) }
                guard let index = self.named[Self.full(name, namespace)] ?? self.named[name] else {
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
                        try self.type(branch, namespace: namespace, path: "\(path)[\(index)]", depth: depth))
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
                return try self.type(type, namespace: namespace, path: "\(path).type", depth: depth)
            }
            if let kind = Self.primitives[name] {
                return try self.add(kind, Self.meaning(object, kind), path)
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
                let index = try self.add(kind, Self.meaning(object, kind), path)
                _ = try self.define(object, namespace, path, index)
                return index
            case "enum":
                let symbols = (object["symbols"]?.array ?? []).map { Self.name($0) }
                guard !symbols.isEmpty, !symbols.contains(nil) else {
                    throw AvroError("\(path).symbols must be texts of 1 to \(AvroSchema.nameLimit) bytes")
                }
                let index = try self.add(.symbols(symbols.compactMap { $0 }), nil, path)
                _ = try self.define(object, namespace, path, index)
                return index
            case "record", "error": return try self.record(object, namespace, path, depth)
            default: return try self.type(type, namespace: namespace, path: "\(path).type", depth: depth)
            }
        }

        private mutating func record(
            _ object: JSONObject, _ namespace: String, _ path: String, _ depth: Int
        ) throws(AvroError) -> Int {
            let index = try self.add(.record([]), Self.meaning(object, .record([])), path)
            let inner = try self.define(object, namespace, path, index)
            var fields: [(quoted: [UInt8], type: Int)] = []
            var names: Set<String> = []
            for (position, field) in (object["fields"]?.array ?? []).enumerated() {
                let place = "\(path).fields[\(position)]"
                guard let name = Self.name(field.object?["name"]), names.insert(name).inserted,
                    let type = field.object?["type"]
                else {
                    throw AvroError(
                        "\(place) needs a name of its own of 1 to \(AvroSchema.nameLimit) bytes, and a type")
                }
                let inside = try self.type(type, namespace: inner, path: place, depth: depth + 1)
                fields.append((JSON.string(name).serialized + [UInt8(ascii: ":")], inside))
            }
            self.nodes[index].kind = .record(fields)
            return index
        }

        /// Returns the name with its namespace. A dot in front stands for that of no name, as some libraries write it.
        private static func full(_ name: String, _ namespace: String) -> String {
            let full = name.contains(".") || namespace.isEmpty ? name : "\(namespace).\(name)"
            return full.hasPrefix(".") ? String(full.dropFirst()) : full
        }

        /// Makes a type known by its name.
        ///
        /// - Returns: the namespace inside it.
        private mutating func define(
            _ object: JSONObject, _ namespace: String, _ path: String, _ index: Int
        ) throws(AvroError) -> String {
            var space = object["namespace"]?.string ?? namespace
            guard let name = Self.name(object["name"]), space.utf8.count <= AvroSchema.nameLimit else {
                throw AvroError("\(path) needs a name of 1 to \(AvroSchema.nameLimit) bytes, as may its namespace have")
            }
            if let dot = name.lastIndex(of: ".") { space = String(name[..<dot]) }
            self.named[Self.full(name, space)] = index
            return space
        }

        /// Returns the meaning of a type. One that is not known, or not valid for the type, is ignored.
        private static func meaning(_ object: JSONObject, _ kind: Kind) -> LogicalType? {
            let parameter = object["connect.parameters"]?.object?["scale"]?.string.flatMap { Int64($0) }
            let connect = LogicalType(
                connect: object["connect.name"]?.string, scale: (parameter ?? object["scale"]?.integer).map { Int($0) })
            switch (kind, connect) {
            case (.int, .date?), (.long, .moment?), (.string, .isoDate?), (.bytes, .decimal?),
                (.record, .variableDecimal?), (.record, .structured?):
                return connect
            default: break
            }
            switch (kind, object["logicalType"]?.string) {
            case (.bytes, "decimal"?), (.fixed, "decimal"?): return self.decimal(object, kind)
            case (.bytes, "big-decimal"?): return .bigDecimal
            case (.fixed(16), "uuid"?): return .uuid
            case (.fixed(12), "duration"?): return .duration
            case (.int, "date"?): return .date
            case (.long, "timestamp-millis"?): return .moment(parts: 1000)
            case (.long, "timestamp-micros"?): return .moment(parts: 1_000_000)
            case (.long, "timestamp-nanos"?): return .moment(parts: 1_000_000_000)
            case (.long, "local-timestamp-millis"?): return .local(parts: 1000)
            case (.long, "local-timestamp-micros"?): return .local(parts: 1_000_000)
            case (.long, "local-timestamp-nanos"?): return .local(parts: 1_000_000_000)
            // Texts as they are, and times of day as the numbers that they are.
            default: return nil
            }
        }

        /// Returns nil for a decimal that is not valid, whose bytes are those of its type.
        private static func decimal(_ object: JSONObject, _ kind: Kind) -> LogicalType? {
            guard let precision = object["precision"]?.integer, precision > 0 else { return nil }
            let scale = object["scale"] == nil ? 0 : object["scale"]?.integer ?? -1
            guard (0...min(precision, Int64(LogicalType.scaleLimit))).contains(scale) else { return nil }
            // The digits that a number of 8 n - 1 bits has in any case.
            if case .fixed(let size) = kind, precision > Int64(Double(8 * size - 1) * 0.301_029_995_663_981_2) {
                return nil
            }
            return .decimal(scale: Int(scale))
        }

        /// Finds the types whose values have bytes: one look at each type and at each field.
        func measured() -> [Node] {
            var nodes = self.nodes
            var records: [[Int]] = Array(repeating: [], count: nodes.count)
            var found: [Int] = []
            for (index, node) in nodes.enumerated() {
                switch node.kind {
                case .null, .fixed(0): break
                case .record(let fields): for field in fields { records[field.type].append(index) }
                default: found.append(index)
                }
            }
            while let index = found.popLast() {
                guard !nodes[index].hasBytes else { continue }
                nodes[index].hasBytes = true
                found += records[index]
            }
            return nodes
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
