import Model
import TestKit
import Testing
import Tokens

@Suite struct DerivedVectorsTests {
    @Test func tokensAndLinksAreThoseOfTheVectors() throws {
        let vectors = try DerivedVector.all()
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
