import Cryptography
import Model
import TestKit

@testable import Devkit

extension BrokenPackage {
    static let manifests: [BrokenPackage] = [
        BrokenPackage("no order.json", .fileMissing, mention: "\"order.json\"") { draft, _ in draft["order.json"] = nil
        },
        BrokenPackage("no manifest", .fileMissing, mention: "\"manifest.json\"") { draft, _ in
            draft["manifest.json"] = nil
        },
        BrokenPackage("no signature", .fileMissing, mention: "\"signature\"") { draft, _ in draft["signature"] = nil },
        BrokenPackage("an order changed afterwards", .manifestDigestWrong, mention: "\"order.json\"", seal: .nothing) {
            draft, _ in draft["order.json"]?.append(UInt8(ascii: "\n"))
        },
        BrokenPackage("a file that is not listed", .manifestFileUnlisted, mention: "\"extra.pdf\"", seal: .nothing) {
            draft, _ in draft["extra.pdf"] = SampleFile.pdf(text: "extra")
        },
        BrokenPackage("a language that is not listed", .manifestFileUnlisted, mention: "de.lproj", seal: .signature) {
            draft, _ in try draft.manifest("de.lproj/order.strings", nil)
        },
        BrokenPackage("a listed file that is not there", .manifestFileMissing, mention: "strip.png", seal: .signature) {
            draft, _ in try draft.manifest("strip.png", .string(SHA256.hex([])))
        },
        BrokenPackage("digests of Wallet Passes", .manifestDigestSHA1, mention: "SHA-256, 64 digits", seal: .signature)
        { draft, _ in
            try draft.manifest("logo.png", "da39a3ee5e6b4b0d3255bfef95601890afd80709")
        },
        BrokenPackage("a digest in capitals", .manifestDigestForm, mention: "lower case", seal: .signature) {
            draft, _ in
            try draft.manifest("logo.png", .string(SHA256.hex(draft["logo.png"] ?? []).uppercased()))
        },
        BrokenPackage("a digest in Base64", .manifestDigestForm, mention: "64 hex", seal: .signature) { draft, _ in
            try draft.manifest("logo.png", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
        },
        BrokenPackage("a digest that is a number", .manifestDigestForm, mention: "a number", seal: .signature) {
            draft, _ in try draft.manifest("logo.png", 1)
        },
        BrokenPackage("a manifest that lists itself", .manifestName, mention: "manifest.json", seal: .signature) {
            draft, _ in try draft.manifest("manifest.json", .string(SHA256.hex([])))
        },
        BrokenPackage("a manifest with a folder", .manifestName, mention: "de.lproj/", seal: .signature) { draft, _ in
            try draft.manifest("de.lproj/", .string(SHA256.hex([])))
        },
        BrokenPackage("a manifest that is a list", .manifestUnreadable, mention: "an array", seal: .signature) {
            draft, _ in draft["manifest.json"] = Array("[]".utf8)
        },
        BrokenPackage("a manifest that is no JSON", .manifestUnreadable, mention: "no JSON", seal: .signature) {
            draft, _ in draft["manifest.json"]?.removeLast()
        },
        BrokenPackage("a manifest with a name twice", .manifestUnreadable, mention: "twice", seal: .signature) {
            draft, _ in draft["manifest.json"] = Array(#"{"a":"","a":""}"#.utf8)
        },
    ]
}
