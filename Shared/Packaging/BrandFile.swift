import Model

/// What `brand.json` says, with nothing read beyond it.
struct BrandFile {
    let orderType: OrderTypeIdentifier
    let certificate: String
    let key: String
    let intermediate: String
    let push: Push
    let merchant: JSONObject?
    let returnInfo: JSONObject?
    let passUnknownMembers: Bool
    let pictureHosts: PictureHosts

    enum Push: Hashable {
        case certificate
        case token(key: String, keyIdentifier: String, teamIdentifier: String)
    }

    /// Decodes strictly: what is not known is refused, because it is a typing error more often than not.
    /// - Throws: `BrandError` `.configuration` with the JSON path, without the file's name.
    init(_ bytes: [UInt8]) throws(BrandError) {
        let json: JSON
        do { json = try JSON(parsing: bytes) } catch { throw BrandError(.configuration, error.description) }
        var root = try Members(json, path: "$")
        let name = try root.string("orderTypeIdentifier")
        do {
            self.orderType = try OrderTypeIdentifier(name)
        } catch {
            throw BrandError(.configuration, "$.orderTypeIdentifier: \(error.description)")
        }
        self.certificate = try root.file("certificate")
        self.key = try root.file("key")
        self.intermediate = try root.file("intermediate")
        self.push = try Self.push(root.members("push"))
        var defaults = try root.optionalMembers("defaults")
        self.merchant = try defaults?.object("merchant")
        self.returnInfo = try defaults?.object("returnInfo")
        try defaults?.refuseRest()
        self.passUnknownMembers = try root.bool("passUnknownMembers") ?? false
        self.pictureHosts = try Self.pictureHosts(root.optionalMembers("pictures"))
        try root.refuseRest()
    }

    private static func pictureHosts(_ given: Members?) throws(BrandError) -> PictureHosts {
        guard var members = given else { return .none }
        let texts = try members.texts("hosts")
        try members.refuseRest()
        do {
            return try PictureHosts(texts)
        } catch {
            throw BrandError(.configuration, "$.pictures.hosts: \(error.message)")
        }
    }

    /// The order type that a folder's brand.json names, nil if it cannot be read that far.
    static func declaredOrderType(in folder: String) -> OrderTypeIdentifier? {
        guard let bytes = try? BrandDirectory(path: folder).file("brand.json"),
            let name = try? JSON(parsing: bytes).object?["orderTypeIdentifier"]?.string
        else { return nil }
        return try? OrderTypeIdentifier(name)
    }

    private static func push(_ given: Members) throws(BrandError) -> Push {
        var members = given
        let push: Push
        switch try members.string("authentication") {
        case "certificate": push = .certificate
        case "token":
            push = .token(
                key: try members.file("key"), keyIdentifier: try members.appleIdentifier("keyIdentifier"),
                teamIdentifier: try members.appleIdentifier("teamIdentifier"))
        case let other:
            throw BrandError(
                .configuration, "$.push.authentication: \"\(other)\" must be \"certificate\" or \"token\"")
        }
        try members.refuseRest()
        return push
    }
}

/// The members of an object, taken out one by one, so that in the end what is left over is known.
private struct Members {
    private let path: String
    private var rest: JSONObject

    init(_ json: JSON, path: String) throws(BrandError) {
        guard case .object(let object) = json else {
            throw BrandError(.configuration, "\(path): \(json.kind) stands where an object is expected")
        }
        self.path = path
        self.rest = object
    }

    private mutating func take(_ name: String) -> JSON? {
        defer { self.rest[name] = nil }
        return self.rest[name]
    }

    private func wrong(_ name: String, _ value: JSON?, _ expected: String) -> BrandError {
        guard let value else {
            return BrandError(.configuration, "\(self.path).\(name) is missing: give \(expected)")
        }
        return BrandError(.configuration, "\(self.path).\(name): \(value.kind) stands where \(expected) is expected")
    }

    mutating func string(_ name: String) throws(BrandError) -> String {
        let value = self.take(name)
        guard case .string(let text)? = value, !text.isEmpty else { throw self.wrong(name, value, "a text") }
        return text
    }

    /// A path inside the brand's directory.
    mutating func file(_ name: String) throws(BrandError) -> String {
        let text = try self.string(name)
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard !text.hasPrefix("/"), !parts.contains(".."), !text.utf8.contains(0) else {
            throw BrandError(
                .configuration,
                "\(self.path).\(name): \"\(text)\" must be a path relative to the brand's directory, without ..")
        }
        return text
    }

    /// Ten upper-case letters and digits. Source: Wallet Orders §4.4
    mutating func appleIdentifier(_ name: String) throws(BrandError) -> String {
        let text = try self.string(name)
        let valid = text.utf8.allSatisfy {
            (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        guard valid, text.utf8.count == 10 else {
            throw BrandError(.configuration, "\(self.path).\(name): \"\(text)\" is not ten of A-Z and 0-9")
        }
        return text
    }

    mutating func bool(_ name: String) throws(BrandError) -> Bool? {
        let value = self.take(name)
        guard let value else { return nil }
        guard case .bool(let truth) = value else { throw self.wrong(name, value, "true or false") }
        return truth
    }

    mutating func texts(_ name: String) throws(BrandError) -> [String] {
        let value = self.take(name)
        guard case .array(let elements)? = value else { throw self.wrong(name, value, "an array of texts") }
        let texts = elements.compactMap(\.string)
        guard texts.count == elements.count else { throw self.wrong(name, value, "an array of texts only") }
        return texts
    }

    mutating func object(_ name: String) throws(BrandError) -> JSONObject? {
        let value = self.take(name)
        guard let value else { return nil }
        guard case .object(let object) = value else { throw self.wrong(name, value, "an object") }
        return object
    }

    mutating func members(_ name: String) throws(BrandError) -> Members {
        let value = self.take(name)
        guard let value else { throw self.wrong(name, value, "an object") }
        return try Members(value, path: "\(self.path).\(name)")
    }

    mutating func optionalMembers(_ name: String) throws(BrandError) -> Members? {
        guard let value = self.take(name) else { return nil }
        return try Members(value, path: "\(self.path).\(name)")
    }

    func refuseRest() throws(BrandError) {
        guard let first = self.rest.members.first else { return }
        throw BrandError(.configuration, "\(self.path).\(first.name) is not known here: is the name mistyped?")
    }
}
