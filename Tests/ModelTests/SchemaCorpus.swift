import Foundation
import TestKit
import Testing

@testable import Model

/// A value on which Swift and the JSON Schemas must agree.
struct SchemaCase {
    /// The schema's file name without `.schema.json`.
    let schema: String
    let name: String
    let instance: JSON
    /// The verdict that both must give; nil if they must only agree.
    let isValid: Bool?

    /// The key of example 1, which the document and event cases are about.
    static var key: OrderKey { get throws { try Examples.key(try Examples.order(1)) } }
}

/// The Swift code's verdict on the cases.
struct SwiftJudge {
    private let key: OrderKey
    private let fold: OrderFold
    private let state: OrderState

    init() throws {
        self.key = try SchemaCase.key
        self.fold = Examples.fold(try Examples.rules(try Examples.order(1)))
        self.state = try Examples.state(1)
    }

    func accepts(_ item: SchemaCase) throws -> Bool {
        switch item.schema {
        case "order":
            return OrderValidator.violations(
                in: item.instance, allowUnknownMembers: false, nowEpochSeconds: nil, images: .files
            ).isEmpty
        case "order-document":
            guard case .object(let members) = item.instance else { return false }
            let kind = OrderChange.Kind.replaced(OrderDocument(members: members))
            return self.isApplied(OrderChange(key: self.key, source: "s", id: "new", kind: kind), nil)
        case "order-change":
            let key = Array(self.key.description.utf8)
            guard let change = try? OrderChange.decode(key: key, value: item.instance.serialized, headers: []) else {
                return false
            }
            return self.isApplied(change, self.state)
        case "order-record": return (try? OrderRecord.decode(item.instance.serialized)) != nil
        case "registration": return (try? RegistrationRecord.decode(item.instance.serialized)) != nil
        case "pending-push": return (try? PendingPushRecord.decode(item.instance.serialized)) != nil
        default: throw SchemaProgramError()
        }
    }

    private func isApplied(_ change: OrderChange, _ state: OrderState?) -> Bool {
        let result = self.fold.fold(state, changes: [(.at(99), change)], nowEpochSeconds: Examples.now)
        if case .refused? = result.outcomes.first { return false }
        return true
    }
}

/// Python's `jsonschema`, which judges all cases in one run.
enum SchemaProgram {
    /// - Returns: for each case, true if its schema accepts it.
    static func verdicts(_ cases: [SchemaCase]) throws -> [Bool] {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("waybill-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let corpus = JSON.array(cases.map { [.string($0.schema), $0.instance] })
        try Data(corpus.serialized).write(to: folder.appendingPathComponent("corpus.json"))
        try Data(self.program.utf8).write(to: folder.appendingPathComponent("check.py"))
        // Debian's, which has Debian's module, or else the one on the path.
        for python in [["/usr/bin/python3"], ["/usr/bin/env", "python3"]] {
            let arguments = python + ["check.py", Examples.schemas, "corpus.json"]
            let script = "cd \"$1\" && shift && exec \"$@\" 2>/dev/null"
            guard let output = try? Program.run("sh", ["-c", script, "sh", folder.path] + arguments) else { continue }
            return output.split(separator: "\n").map { $0 == "valid" }
        }
        throw SchemaProgramError()
    }

    private static let program = """
        import json, os, sys, warnings
        warnings.simplefilter("ignore")
        from jsonschema import Draft202012Validator, FormatChecker, RefResolver
        folder, corpus = sys.argv[1:]
        end = ".schema.json"
        names = [name[:-len(end)] for name in os.listdir(folder) if name.endswith(end)]
        schemas = {name: json.load(open(os.path.join(folder, name + end))) for name in names}
        store = {schema["$id"]: schema for schema in schemas.values()}
        validators = {}
        for name, schema in schemas.items():
            Draft202012Validator.check_schema(schema)
            resolver = RefResolver(schema["$id"], schema, store=store)
            validators[name] = Draft202012Validator(schema, resolver=resolver, format_checker=FormatChecker())
        for name, instance in json.load(open(corpus)):
            print("valid" if validators[name].is_valid(instance) else "refused")
        """
}

struct SchemaProgramError: Error, CustomStringConvertible {
    var description: String { "no python3 with jsonschema: install Debian's python3-jsonschema" }
}
