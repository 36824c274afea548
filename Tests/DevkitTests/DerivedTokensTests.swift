import ArgumentParser
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

    @Test(arguments: [
        (["--secrets", "s", "order.com.example.shop", "1234"], "is not an order key, which looks like"),
        (["--secrets", "s", "1234"], "is not an order key, which looks like order.com.example.shop/1234"),
        (["--secrets", "s"], "Missing expected argument"),
        (["--secrets", "", "order.com.example.shop/1234"], "must name the file with the token secrets"),
    ])
    func wrongArgumentsAreAnsweredWithTheForm(arguments: [String], reason: String) throws {
        let error = try #require(throws: (any Error).self) { try TokenCommand.parse(arguments) }
        let message = TokenCommand.fullMessage(for: error)
        #expect(message.contains(reason), "\(message)")
        #expect(
            message.contains("Usage: waybill-dev token [--secrets <file>] <orderTypeIdentifier>/<orderIdentifier>"),
            "\(message)")
        let command = try TokenCommand.parse(["order.com.example.shop/1234", "--secrets", "s"])
        #expect(command.key.description == "order.com.example.shop/1234")
    }
}
