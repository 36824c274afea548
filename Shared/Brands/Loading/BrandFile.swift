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
    /// Without the value of `Authorization`, which is in the file.
    let documents: (rules: DocumentRules, authorization: DocumentAuthorization?)
    /// Nil for a brand that keeps its orders.
    let retention: OrderRetention?

    /// Decodes strictly: unknown members are refused, because most of them are typing errors.
    /// - Throws: `BrandError` `.configuration` with the JSON path, without the file's name.
    init(_ bytes: [UInt8]) throws(BrandError) {
        let json: JSON
        do { json = try JSON(parsing: bytes) } catch { throw BrandError(.configuration, error.description) }
        var root = try JSONMembers(json, path: "$") { BrandError(.configuration, $0) }
        let name = try root.text("orderTypeIdentifier")
        do { self.orderType = try OrderTypeIdentifier(name) } catch {
            throw root.wrong("orderTypeIdentifier", "\(error)")
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
        self.merchant = try defaults?.optionalObject("merchant")
        self.returnInfo = try defaults?.optionalObject("returnInfo")
        self.changeNotifications = try defaults?.choice("changeNotifications")
        try defaults?.refuseRest()
        self.passUnknownMembers = try root.flag("passUnknownMembers")
        self.pictureHosts = try Self.pictureHosts(root.optionalMembers("pictures"))
        self.documents = try Self.documents(root.optionalMembers("documents"))
        self.retention = try Self.retention(root.optionalMembers("retention"))
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

    private static func pictureHosts(_ given: JSONMembers<BrandError>?) throws(BrandError) -> PictureHosts {
        guard var members = given else { return .none }
        var hosts = try Self.hosts(&members)
        hosts.background = try Self.background(&members)
        try members.refuseRest()
        return hosts
    }

    /// Reads whether pictures are made right, and the colour below them; leaves the rest.
    private static func background(_ members: inout JSONMembers<BrandError>) throws(BrandError) -> PictureFit.Colour? {
        let text = try members.optionalText("background")
        let fits = members.has("fit") ? try members.flag("fit") : true
        guard fits else {
            if text != nil { throw members.wrong("background", "has no use if fit is false") }
            return nil
        }
        guard let text else { return .white }
        guard let colour = PictureFit.Colour(text) else {
            throw members.wrong("background", "\"\(text)\" must be # and six hexadecimal digits, such as #f5f5f7")
        }
        return colour
    }

    /// Reads the hosts of pictures or of documents; leaves the rest.
    private static func hosts(_ members: inout JSONMembers<BrandError>) throws(BrandError) -> PictureHosts {
        let texts = try members.texts("hosts")
        let ignored: IgnoredQuery
        switch members.take("ignoreQuery") {
        case nil, .bool(false)?: ignored = .none
        case .bool(true)?: ignored = .all
        case .array?:
            let names = try members.texts("ignoreQuery")
            let isName = { (name: String) in
                !name.isEmpty && !name.contains { "&=#?".contains($0) }
                    && name.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            }
            guard names.count <= IgnoredQuery.countLimit, names.allSatisfy(isName) else {
                throw members.wrong(
                    "ignoreQuery",
                    "must be true, or at most \(IgnoredQuery.countLimit) names of parameters "
                        + "as they are in URLs, such as \"X-Amz-Signature\"")
            }
            ignored = .names(Set(names))
        case let other?:
            throw members.wrong("ignoreQuery", "must be true, false or an array of strings, it is \(other.kind)")
        }
        do {
            return try PictureHosts(texts, ignoring: ignored)
        } catch {
            throw members.wrong("hosts", "\(error.message)")
        }
    }

    /// The file with the value of `Authorization`, and the host that gets it.
    struct DocumentAuthorization: Hashable {
        let host: String
        let port: Int
        let file: String
    }

    private static func documents(
        _ given: JSONMembers<BrandError>?
    ) throws(BrandError) -> (rules: DocumentRules, authorization: DocumentAuthorization?) {
        var rules = DocumentRules()
        guard var members = given else { return (rules, nil) }
        rules.hosts = try Self.hosts(&members)
        var authorization: DocumentAuthorization?
        if var given = try members.optionalMembers("authorization") {
            let text = try given.text("host")
            guard let (host, port) = PictureHosts.hostAndPort(text[...]), rules.hosts.allows(host: host, port: port)
            else { throw given.wrong("host", "\"\(text)\" must be one host that documents.hosts allows") }
            authorization = DocumentAuthorization(host: host, port: port, file: try given.file("file"))
            try given.refuseRest()
        }
        if members.has("bytes") {
            rules.sizeLimit = Int(try members.integer("bytes", in: DocumentRules.sizeRange))
        }
        if members.has("orderBytes") {
            rules.orderLimit = Int(try members.integer("orderBytes", in: DocumentRules.sizeRange))
        }
        if members.has("brandBytes") {
            rules.brandLimit = try members.integer("brandBytes", in: DocumentRules.brandRange)
        }
        try members.refuseRest()
        return (rules, authorization)
    }

    private static func retention(_ given: JSONMembers<BrandError>?) throws(BrandError) -> OrderRetention? {
        guard var members = given else { return nil }
        let range = OrderRetention.daysRange
        guard let days = try members.optionalInteger("endedDays") else {
            throw members.wrong("endedDays", "is missing: give days from \(range.lowerBound) to \(range.upperBound)")
        }
        guard range.contains(days) else {
            throw members.wrong("endedDays", "\(days) must be from \(range.lowerBound) to \(range.upperBound)")
        }
        try members.refuseRest()
        return OrderRetention(endedDays: days)
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

/// The members of `brand.json` about pushing.
extension BrandFile {
    /// The brand's authentication to APNs. Source: Wallet Orders §4.4
    enum Push: Hashable {
        case certificate
        case token(key: String, keyIdentifier: String, teamIdentifier: String)
    }

    /// Reads the brand's authentication; leaves the rest.
    static func push(_ members: inout JSONMembers<BrandError>) throws(BrandError) -> Push {
        switch try members.text("authentication") {
        case "certificate": .certificate
        case "token":
            .token(
                key: try members.file("key"), keyIdentifier: try Self.appleIdentifier(&members, "keyIdentifier"),
                teamIdentifier: try Self.appleIdentifier(&members, "teamIdentifier"))
        case let other:
            throw members.wrong("authentication", "\"\(other)\" must be \"certificate\" or \"token\"")
        }
    }

    /// Reads ten upper-case letters and digits. Source: Wallet Orders §4.4
    private static func appleIdentifier(
        _ members: inout JSONMembers<BrandError>, _ name: String
    ) throws(BrandError) -> String {
        let text = try members.text(name)
        let valid = text.utf8.allSatisfy {
            (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        guard valid, text.utf8.count == 10 else { throw members.wrong(name, "\"\(text)\" is not ten of A-Z and 0-9") }
        return text
    }

    /// Reads the options of the brand's notifications; leaves the rest.
    static func pushOptions(_ members: inout JSONMembers<BrandError>) throws(BrandError) -> PushOptions {
        var options = PushOptions()
        if let kind: PushOptions.Kind = try members.choice("type") { options.kind = kind }
        if let number = try members.optionalInteger("priority") {
            guard let priority = PushOptions.Priority(rawValue: number) else {
                throw members.wrong("priority", "\(number) must be 1, 5 or 10")
            }
            options.priority = priority
        }
        guard options.kind != .background || options.priority != .immediate else {
            throw members.wrong(
                "priority", "10 is an error with background notifications: give 5, or $.push.type \"alert\"")
        }
        if let seconds = try members.optionalInteger("expirationSeconds") {
            guard PushOptions.expirationRange.contains(seconds) else {
                throw members.wrong(
                    "expirationSeconds", "\(seconds) must be from 0 to \(PushOptions.expirationRange.upperBound)")
            }
            options.expirationSeconds = seconds
        }
        options.collapseIdentifier = try Self.collapseIdentifier(&members)
        return options
    }

    /// Reads a text that becomes a header's value, so it has only characters that are allowed in one and is not trimmed
    /// at an end.
    ///
    /// Source: RFC 9110 §5.5; Wallet Orders §4.3
    private static func collapseIdentifier(_ members: inout JSONMembers<BrandError>) throws(BrandError) -> String? {
        guard let text = try members.optionalText("collapseIdentifier") else { return nil }
        guard text.utf8.count <= PushOptions.collapseIdentifierLimit else {
            throw members.wrong(
                "collapseIdentifier",
                "has \(text.utf8.count) bytes, at most "
                    + "\(PushOptions.collapseIdentifierLimit) are allowed")
        }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw members.wrong("collapseIdentifier", "may have visible ASCII characters only, no spaces")
        }
        return text
    }
}
