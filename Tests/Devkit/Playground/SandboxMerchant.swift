import Foundation
import Model

/// A merchant of Apple's sandbox with whom the playground's page asks Apple itself for merchant sessions, so that a real
/// device can pay there. Nothing is charged: the page drops the payment's token.
struct SandboxMerchant: Sendable {
    /// The directory of the merchant, as the checkout role reads it. Source: Services/Gateway/README.md
    let directory: String
    /// The origin at which a proxy or tunnel offers the page: `https://playground.example.com`.
    let publicURL: String
    private let members: JSONObject

    /// - Throws: `ToolError` for a merchant of production, for one without a certificate, and for a URL that is not an
    ///   origin with https.
    init(directory: String, publicURL: String) throws {
        let file = "\(directory)/merchant.json"
        let members: JSONObject?
        do { members = try JSON(parsing: readFile(file)).object } catch let error as JSONError {
            throw ToolError(.input, "--merchant: reading \(file): \(error)")
        }
        guard let members else { throw ToolError(.input, "--merchant: reading \(file): it is not a JSON object") }
        try self.init(members, directory: directory, publicURL: publicURL)
    }

    init(_ members: JSONObject, directory: String, publicURL: String) throws(ToolError) {
        guard members["environments"] == ["sandbox"] else {
            let found = members["environments"]?.text ?? "missing, which means production"
            throw ToolError(
                .input,
                "--merchant \(directory): $.environments must be [\"sandbox\"], it is \(found): the playground takes "
                    + "no payments of production")
        }
        for name in ["merchantIdentifier", "certificate", "key"] where members[name]?.string == nil {
            throw ToolError(
                .input, "--merchant \(directory): $.\(name) is missing: Apple makes sessions for a certificate only")
        }
        let url = publicURL.hasSuffix("/") ? String(publicURL.dropLast()) : publicURL
        guard let parts = URLComponents(string: url), parts.scheme == "https", parts.host?.isEmpty == false,
            parts.path.isEmpty, parts.query == nil, parts.fragment == nil, parts.user == nil
        else {
            throw ToolError(
                .input,
                "--public-url \(publicURL): must be https:// and a host, without a path: pages without https "
                    + "have no Apple Pay")
        }
        self.directory = directory
        self.publicURL = url.lowercased()
        self.members = members
    }

    var identifier: String { self.members["merchantIdentifier"]?.string ?? "" }

    /// Returns the content of `merchant.json` for the playground: its own key and pages, and no service of the shop.
    ///
    /// - Parameter playground: members that take the place of the merchant's own, except `origins`, which are added.
    func members(for playground: JSONObject) -> JSONObject {
        var members = self.members
        for name in ["upstream", "confirm", "playground"] { members[name] = nil }
        for name in ["orderTypeIdentifiers", "capabilities", "keys"] { members[name] = playground[name] }
        var origins = members["origins"]?.object ?? JSONObject()
        for origin in (playground["origins"]?.object ?? JSONObject()).members where origins[origin.name] == nil {
            origins[origin.name] = origin.value
        }
        members["origins"] = .object(origins)
        if members["payment"] == nil { members["payment"] = playground["payment"] }
        return members
    }
}
