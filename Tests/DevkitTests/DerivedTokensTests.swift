import Foundation
import Model
import TestKit
import Testing

@testable import Devkit

/// The tool derives the tokens that programs in other languages derive.
@Suite struct DerivedTokensTests {
    @Test func tokensAreThoseOfTheVectors() throws {
        let vectors = try DerivedVector.all()
        let scratch = try TemporaryDirectory("derived-tokens")
        defer { scratch.remove() }
        #expect(vectors.count >= 10)
        for vector in vectors {
            try Data(vector.secrets.utf8).write(to: URL(filePath: scratch.path("secrets")))
            let tokens = try DerivedTokens(file: scratch.path("secrets"))
            #expect(tokens.token(for: try OrderKey(vector.order)) == vector.token, "\(vector.name)")
        }
    }
}
