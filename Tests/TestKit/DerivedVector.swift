import Foundation

/// A vector with which implementations in other languages are tested: `compose/connect/publish/vectors.json`.
public struct DerivedVector: Decodable, Sendable {
    public let name: String
    /// The content of the file of secrets.
    public let secrets: String
    public let order: String
    public let token: String
    /// UNIX seconds.
    public let expires: Int64
    /// That of the link.
    public let signature: String

    public static func all() throws -> [DerivedVector] {
        let file = Repository.root.appending(path: "compose/connect/publish/vectors.json")
        return try JSONDecoder().decode([DerivedVector].self, from: Data(contentsOf: file))
    }
}
