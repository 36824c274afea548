import Foundation
public import Model

/// Python's `jsonschema`, which judges all cases in one run.
public enum SchemaProgram {
    /// - Parameter cases: the name of a schema of `Shared/Model/Schemas`, without its ending, and a value.
    /// - Returns: for each case, true if its schema accepts it.
    public static func verdicts(_ cases: [(schema: String, instance: JSON)]) throws -> [Bool] {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("waybill-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let schemas = Repository.root.appending(path: "Shared/Model/Schemas").path()
        let corpus = JSON.array(cases.map { [.string($0.schema), $0.instance] })
        try Data(corpus.serialized).write(to: folder.appendingPathComponent("corpus.json"))
        try Data(self.program.utf8).write(to: folder.appendingPathComponent("check.py"))
        // Debian's, which has Debian's module, or else the one on the path.
        for python in [["/usr/bin/python3"], ["/usr/bin/env", "python3"]] {
            let arguments = python + ["check.py", schemas, "corpus.json"]
            let script = "cd \"$1\" && shift && exec \"$@\" 2>/dev/null"
            guard let output = try? Program.run("sh", ["-c", script, "sh", folder.path] + arguments) else { continue }
            return output.split(separator: "\n").map { $0 == "valid" }
        }
        throw SchemaProgramError()
    }

    /// Judges all variants of an operator's file by its schema: see `variants`.
    public static func judged(
        _ file: JSON, by schema: String
    ) throws -> [(name: String, instance: JSON, isAccepted: Bool)] {
        let variants = Self.variants(of: file)
        let verdicts = try Self.verdicts(variants.map { (schema, $0.instance) })
        guard verdicts.count == variants.count else { throw SchemaProgramError() }
        return zip(variants, verdicts).map { ($0.name, $0.instance, $1) }
    }

    /// Returns a file of an operator with each value removed or replaced in turn and each object with another member.
    private static func variants(of file: JSON) -> [(name: String, instance: JSON)] {
        var variants = [("as it is", file), ("zzz", file.setting(1, "zzz"))]
        for path in file.paths {
            let values: [JSON?] = [nil, .null, -7, "x", "", "../x", true, [], ["x"], [:]]
            for value in values {
                variants.append(("\(path) = \(value?.text ?? "none")", file.setting(value, path)))
            }
            if case .object? = file[path: path] { variants.append(("\(path).zzz", file.setting(1, "\(path).zzz"))) }
        }
        return variants
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
