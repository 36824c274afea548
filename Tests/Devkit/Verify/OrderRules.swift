import Model

/// The rules for an order.json beyond the form of each member.
///
/// Source: Wallet Orders §2.5 (Apple's trouble list), §3.1, §3.20
enum OrderRules {
    /// - Parameter certificateOrderType: the order type of the signer's certificate, nil if it is not known.
    static func violations(
        _ order: JSON, certificateOrderType: String?, files: PackageFiles
    ) -> [PackageViolation] {
        guard let members = order.object else {
            return [PackageViolation(.orderUnreadable, "order.json", "It is \(order.kind) instead of an object.")]
        }
        let walk = OrderWalk(members)
        return walk.violations + Self.rootViolations(members, certificateOrderType)
            + Self.twice(members, "fulfillments", "fulfillmentIdentifier")
            + Self.twice(members, "returns", "returnIdentifier")
            + NamedFileRules.violations(walk.files, in: files)
    }

    private static func rootViolations(_ members: JSONObject, _ certificateOrderType: String?) -> [PackageViolation] {
        var found: [PackageViolation] = []
        func note(_ code: ViolationCode, _ member: String, _ message: String) {
            found.note(code, "order.json $.\(member)", message)
        }
        if case .number(let version)? = members["schemaVersion"], version.double > 1, version.double < 2 {
            note(.orderValue, "schemaVersion", "It must be 1 or 2.")
        }
        if let type = certificateOrderType, let own = members["orderTypeIdentifier"]?.string, own != type {
            note(.orderTypeMismatch, "orderTypeIdentifier", "\(quoted(own)) is not the certificate's, \(quoted(type)).")
        }
        if let service = members["webServiceURL"]?.string {
            // A text that is not a link has already been reported.
            if OrderText.isLink(service), !service.hasPrefix("https://") {
                note(.orderServiceURL, "webServiceURL", "It must start with https://.")
            }
            if members["authenticationToken"] == nil {
                note(.orderToken, "authenticationToken", "It is missing; webServiceURL needs one.")
            }
        }
        // Never printed: anyone with the token may fetch the order.
        if let token = members["authenticationToken"]?.string, token.count < 16 {
            note(.orderToken, "authenticationToken", "It has \(token.count) characters; at least 16 are needed.")
        }
        if let created = members["createdAt"]?.string.flatMap(OrderText.moment),
            let updated = members["updatedAt"]?.string.flatMap(OrderText.moment), updated < created
        {
            note(
                .orderUpdatedEarly, "updatedAt",
                "It lies before createdAt; it equals createdAt at first and grows with each change.")
        }
        // Wallet refuses a payment without the deprecated status unless the schema is 2. Source: Wallet Orders §3.1
        if let payment = members["payment"]?.object, payment["status"] == nil,
            members["schemaVersion"]?.number?.double == 1
        {
            note(.orderMemberMissing, "payment.status", "The member is missing; schemaVersion 1 requires it.")
        }
        return found
    }

    private static func twice(_ members: JSONObject, _ list: String, _ name: String) -> [PackageViolation] {
        var seen: Set<String> = []
        var found: [PackageViolation] = []
        for (index, element) in (members[list]?.array ?? []).enumerated() {
            guard let identifier = element.object?[name]?.string, !seen.insert(identifier).inserted else { continue }
            found.note(
                .orderIdentifierTwice, "order.json $.\(list)[\(index)].\(name)",
                "\(quoted(identifier)) is used already; it must be unique in the order.")
        }
        return found
    }
}

/// Checks that the files named by an order exist and have the right kind.
///
/// Source: Wallet Orders §2.6, §2.7
enum NamedFileRules {
    static func violations(_ named: [OrderWalk.NamedFile], in files: PackageFiles) -> [PackageViolation] {
        var found: [PackageViolation] = []
        var judged: Set<String> = []
        for file in named {
            let place = "order.json \(file.path)"
            if let reason = Self.nameFault(file.name) {
                found.note(.orderFileName, place, "\(quoted(file.name)) \(reason)")
                continue
            }
            let family = Self.family(of: file.name, in: files)
            if family.isEmpty {
                found.note(.orderFileMissing, place, "\(quoted(file.name)) is not in the package; add it.")
            }
            for name in family where judged.insert(name).inserted {
                guard let content = files[name] else { continue }
                let kind = FileKind(content)
                if kind == nil || kind == .pdf && !file.mayBePDF {
                    let allowed = file.mayBePDF ? "a PDF, JPEG or PNG" : "a PNG or JPEG"
                    found.note(.fileContent, quoted(name), "It must be \(allowed), it is \(kind?.rawValue ?? "none").")
                } else if let kind, let said = FileKind(name: name), kind != said {
                    found.note(.fileContent, quoted(name), "It is a \(kind.rawValue), its name says \(said.rawValue).")
                }
            }
        }
        return found
    }

    private static func nameFault(_ name: String) -> String? {
        if name.contains("://") { return "is a URL; Wallet shows files of the package only." }
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        if name.contains("\\") || parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) {
            return "is no plain path inside the package."
        }
        return ScaledName(name) == nil ? nil : "is a variant; name the plain file, Wallet finds @2x and @3x itself."
    }

    /// Returns the file at the root and in each language, with its variants; empty if there is no plain file. A name
    /// without a suffix stands for a picture with one.
    private static func family(of name: String, in files: PackageFiles) -> [String] {
        let hasSuffix = FileKind(name: name) != nil
        let plain = hasSuffix ? [name] : [name] + ["png", "jpg", "jpeg"].map { "\(name).\($0)" }
        var isThere = false
        let family = files.names.filter { file in
            let local = Localization.parts(of: file)?.file ?? file
            let base = ScaledName(local)?.plain ?? local
            guard plain.contains(base) else { return false }
            if base == local { isThere = true }
            return true
        }
        return isThere ? family : []
    }
}

/// A name with `@2x` or `@3x` before its suffix. Source: Wallet Orders §2.6
struct ScaledName {
    /// The name without `@2x` or `@3x`.
    let plain: String

    init?(_ name: String) {
        let dot = name.lastIndex(of: ".") ?? name.endIndex
        let stem = name[..<dot]
        guard stem.hasSuffix("@2x") || stem.hasSuffix("@3x") else { return nil }
        self.plain = String(stem.dropLast(3)) + name[dot...]
    }
}
