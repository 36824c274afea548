import Model
import TestKit
import Testing

@testable import Checkout

/// The form parser of the dialect of payment providers.
@Suite struct FormBodyTests {
    static func parse(_ text: String) -> JSON? {
        (try? FormBody(Array(text.utf8))).map { .object($0.object) }
    }

    @Test func formsBecomeObjects() {
        let rows: [(String, JSON)] = [
            ("", [:]), ("a=1", ["a": "1"]), ("a", ["a": ""]), ("a=", ["a": ""]), ("a=b=c", ["a": "b=c"]),
            ("a=1&b=2", ["a": "1", "b": "2"]), ("a=1&&b=2&", ["a": "1", "b": "2"]),
            ("a+b=c+d", ["a b": "c d"]), ("a%5Bb%5D=%C3%A4", ["a": ["b": "ä"]]),
            ("a[b]=1&a[c]=2", ["a": ["b": "1", "c": "2"]]),
            ("a[b][c][d][e]=1", ["a": ["b": ["c": ["d": ["e": "1"]]]]]), ("a[]=1&a[]=2", ["a": ["1", "2"]]),
            ("a[0]=1&a[1]=2", ["a": ["1", "2"]]), ("a[][b]=1&a[][b]=2", ["a": [["b": "1"], ["b": "2"]]]),
            ("0=1", ["0": "1"]), ("a=%2B", ["a": "+"]), ("a[0][b]=1&a[0][c]=2", ["a": [["b": "1", "c": "2"]]]),
        ]
        for (text, expected) in rows { #expect(Self.parse(text) == expected, "\(text)") }
    }

    @Test(arguments: [
        "a=1&a=2", "a[b]=1&a[b]=2", "a=1&a[b]=2", "a[b]=1&a=2", "a[]=1&a[b]=2", "a[b]=1&a[]=2", "a[0]=1&a[0]=2",
        "a[0]=1&a[2]=2", "=1", "[a]=1", "a[b=1", "a]b=1", "a[b]c=1", "a[[b]]=1", "a=%", "a=%4", "a=%zz", "a=%FF",
        "a=%00", "a[b][c][d][e][f]=1",
    ])
    func anAmbiguousOrMalformedFormIsRefused(_ text: String) { #expect(Self.parse(text) == nil) }

    @Test func aFormIsBoundedAndItsErrorsRevealNoContent() throws {
        let pairs = (0..<200).map { "secret\($0)=x" }.joined(separator: "&")
        #expect(Self.parse(pairs)?.object?.members.count == 200)
        #expect(Self.parse(pairs + "&more=x") == nil)
        for text in ["secret=1&secret=2", "secret[", "a=%secret"] {
            do throws(FormBody.Failure) {
                _ = try FormBody(Array(text.utf8))
                Issue.record("taken: \(text)")
            } catch {
                #expect(!error.message.contains("secret"))
            }
        }
    }

    @Test func anyBytesAreTakenOrRefusedAndNothingTraps() {
        var random = SeededGenerator(seed: 12)
        let alphabet = Array("a0b[]=&%+.41".utf8) + [0, 0xC3, 0xA4]
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0..<24, using: &random)).map { _ in alphabet.randomElement(using: &random)!
            }
            guard let form = try? FormBody(bytes) else { continue }
            // The forwarded body parses to the same object again.
            let raw = Array(form.pairs.map(\.raw).joined(separator: [UInt8(ascii: "&")]))
            #expect((try? FormBody(raw))?.object == form.object)
        }
    }
}
