import Foundation
import Model
import TestKit
import Testing
import Tokens

/// The vectors with which implementations in other languages are tested: `compose/publish/vectors.json`.
@Suite struct DerivedVectorsTests {
    private struct Vector: Decodable {
        let name: String
        /// The content of the file of secrets.
        let secrets: String
        let order: String
        let token: String
        /// UNIX seconds.
        let expires: Int64
        let signature: String
    }

    @Test func tokensAndLinksAreThoseOfTheVectors() throws {
        let file = Repository.root.appending(path: "compose/publish/vectors.json")
        let vectors = try JSONDecoder().decode([Vector].self, from: Data(contentsOf: file))
        #expect(vectors.count >= 10)
        for vector in vectors {
            let secrets = try TokenSecrets(file: Array(vector.secrets.utf8))
            let key = try OrderKey(vector.order)
            #expect(secrets.token(for: key).rawValue == vector.token, "\(vector.name)")
            let link = PackageLink(key: key, expiresEpochSeconds: vector.expires)
            #expect(link.signature(secrets) == vector.signature, "\(vector.name)")
        }
    }
}
