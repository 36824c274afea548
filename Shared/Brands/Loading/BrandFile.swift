import Model
import Packaging
import Tokens

/// The content of `brand.json`; the files that it names are not read.
struct BrandFile {
    let orderType: OrderTypeIdentifier
    let certificate: String
    let key: String
    let intermediate: String
    /// Nil for a brand that shares its secrets with others.
    let tokenSecrets: String?
    let push: Push
    let pushOptions: PushOptions
    let merchant: JSONObject?
    let returnInfo: JSONObject?
    let changeNotifications: ChangeNotifications?
    let passUnknownMembers: Bool
    let pictureHosts: PictureHosts

    /// Decodes strictly: unknown members are refused, because most of them are typing errors.
    /// - Throws: `BrandError` `.configuration` with the JSON path, without the file's name.
    init(_ bytes: [UInt8]) throws(BrandError) {
        let json: JSON
        do { json = try JSON(parsing: bytes) } catch { throw BrandError(.configuration, error.description) }
        var root = try BrandMembers(json, path: "$")
        let name = try root.string("orderTypeIdentifier")
        do {
            self.orderType = try OrderTypeIdentifier(name)
        } catch {
            throw BrandError(.configuration, "$.orderTypeIdentifier: \(error.description)")
        }
        self.certificate = try root.file("certificate")
        self.key = try root.file("key")
        self.intermediate = try root.file("intermediate")
        self.tokenSecrets = try root.optionalFile("tokenSecrets")
        var push = try root.members("push")
        self.push = try Self.push(&push)
        self.pushOptions = try Self.pushOptions(&push)
        try push.refuseRest()
        var defaults = try root.optionalMembers("defaults")
        self.merchant = try defaults?.object("merchant")
        self.returnInfo = try defaults?.object("returnInfo")
        self.changeNotifications = try defaults?.choice("changeNotifications")
        try defaults?.refuseRest()
        self.passUnknownMembers = try root.bool("passUnknownMembers") ?? false
        self.pictureHosts = try Self.pictureHosts(root.optionalMembers("pictures"))
        try root.refuseRest()
        try self.checkDefault(.merchant, self.merchant)
        try self.checkDefault(.returnInfo, self.returnInfo)
    }

    /// Checks a default, since a fault in it would otherwise be reported for each order that uses it.
    private func checkDefault(_ member: OrderValidator.Default, _ object: JSONObject?) throws(BrandError) {
        guard let object else { return }
        let violations = OrderValidator.violations(
            in: object, ofDefault: member, allowUnknownMembers: self.passUnknownMembers)
        if violations.isEmpty { return }
        let texts = violations.map { "$.defaults.\(member.rawValue)\($0.description.dropFirst())" }
        throw BrandError(.configuration, texts.joined(separator: "; "))
    }

    private static func pictureHosts(_ given: BrandMembers?) throws(BrandError) -> PictureHosts {
        guard var members = given else { return .none }
        let texts = try members.texts("hosts")
        let ignored: IgnoredQuery
        switch try members.selection("ignoreQuery") {
        case nil: ignored = .none
        case .all?: ignored = .all
        case .some(let names)?:
            let isName = { (name: String) in
                !name.isEmpty && !name.contains { "&=#?".contains($0) }
                    && name.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            }
            guard names.count <= IgnoredQuery.countLimit, names.allSatisfy(isName) else {
                throw BrandError(
                    .configuration,
                    "$.pictures.ignoreQuery: must be true, or at most \(IgnoredQuery.countLimit) names of parameters "
                        + "as they are in URLs, such as \"X-Amz-Signature\"")
            }
            ignored = .names(Set(names))
        }
        try members.refuseRest()
        do {
            return try PictureHosts(texts, ignoring: ignored)
        } catch {
            throw BrandError(.configuration, "$.pictures.hosts: \(error.message)")
        }
    }

    /// Reads the part of a folder's brand.json that counts if the brand does not load; nil if that part is unreadable.
    ///
    /// If its own secrets cannot be read, it gets random ones: the shared secrets would be those of other brands.
    static func declaration(in folder: String) -> Declaration? {
        let files = BrandDirectory(path: folder)
        guard let bytes = try? files.file("brand.json"), let object = try? JSON(parsing: bytes).object,
            let name = object["orderTypeIdentifier"]?.string, let type = try? OrderTypeIdentifier(name)
        else { return nil }
        guard object["tokenSecrets"] != nil else { return Declaration(orderType: type, tokenSecrets: nil) }
        let own = (try? BrandFile(bytes))?.tokenSecrets.flatMap { try? Brand.tokenSecrets($0, files) }
        return Declaration(orderType: type, tokenSecrets: own ?? .unknown)
    }

    /// The part of a brand.json that counts while its brand cannot be loaded.
    struct Declaration {
        let orderType: OrderTypeIdentifier
        let tokenSecrets: TokenSecrets?
    }
}
