import Browser
import CPlaygroundFiles
import Foundation
import TestKit

/// The files of the playground, by path: from the program, or from a folder during development.
struct PlaygroundPage: Sendable {
    /// A folder whose files take precedence over those in the program.
    let folder: String?
    /// The checkout role's URL, which the page calls.
    let checkout: String
    /// The folder with the JSON Schemas that the page offers.
    let schemas: String

    private static let schemaNames: Set = ["order.schema.json", "payment-request.schema.json"]
    private static let files: [String: (name: String, type: String, bytes: [UInt8])] = [
        "/playground": ("playground.html", "text/html; charset=utf-8", unsafe playground_html().array),
        "/playground/playground.css": (
            "playground.css", "text/css; charset=utf-8", unsafe playground_stylesheet().array
        ),
        "/playground/playground.mjs": (
            "playground.mjs", "text/javascript; charset=utf-8", unsafe playground_playground().array
        ),
        "/playground/editor.mjs": ("editor.mjs", "text/javascript; charset=utf-8", unsafe playground_editor().array),
        "/playground/examples.mjs": (
            "examples.mjs", "text/javascript; charset=utf-8", unsafe playground_examples().array
        ),
        "/playground/transcript.mjs": (
            "transcript.mjs", "text/javascript; charset=utf-8", unsafe playground_transcript().array
        ),
        "/playground/device.mjs": ("device.mjs", "text/javascript; charset=utf-8", unsafe playground_device().array),
        "/playground/source.mjs": ("source.mjs", "text/javascript; charset=utf-8", unsafe playground_source().array),
        "/playground/panels.mjs": ("panels.mjs", "text/javascript; charset=utf-8", unsafe playground_panels().array),
        "/playground/call.mjs": ("call.mjs", "text/javascript; charset=utf-8", unsafe playground_call().array),
        "/playground/update.mjs": ("update.mjs", "text/javascript; charset=utf-8", unsafe playground_update().array),
        "/playground/steps.mjs": ("steps.mjs", "text/javascript; charset=utf-8", unsafe playground_steps().array),
    ]

    /// Allows no inline script or style, and nothing from other origins except the checkout role and apple.com, which
    /// Chromium needs for Payment Request.
    private var policy: String {
        "default-src 'none'; script-src 'self'; style-src 'self' \(self.checkout); img-src 'self' data:; "
            + "connect-src 'self' \(self.checkout) https://apple.com; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    }

    func response(to path: String) -> FakeServer.Response? {
        if let file = (BrowserFile.all + [.polyfill]).first(where: { $0.path == path }) {
            return self.response(file.bytes, file.contentType)
        }
        let name = String(path.dropFirst("/playground/".count))
        if Self.schemaNames.contains(name), path == "/playground/\(name)" {
            return (try? readFile("\(self.schemas)/\(name)")).map { self.response($0, "application/schema+json") }
        }
        guard let file = Self.files[path] else { return nil }
        let own = self.folder.flatMap { try? readFile("\($0)/\(file.name)") }
        return self.response(own ?? file.bytes, file.type)
    }

    /// Returns the type of a document in a package by its name; nil for a name that no receipt and no label has.
    static func documentType(of name: String) -> String? {
        let types = ["pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg"]
        return name.split(separator: ".").last.flatMap { types[$0.lowercased()] }
    }

    /// A document of a package, which may load nothing.
    func document(_ content: [UInt8], _ type: String) -> FakeServer.Response {
        self.response(content, type, policy: "default-src 'none'; frame-ancestors 'none'")
    }

    private func response(_ bytes: [UInt8], _ type: String, policy: String? = nil) -> FakeServer.Response {
        FakeServer.Response(
            200,
            headers: [
                ("content-type", type), ("cache-control", "no-cache"),
                ("content-security-policy", policy ?? self.policy),
                ("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"),
            ], body: bytes)
    }
}

extension playground_file {
    fileprivate var array: [UInt8] { unsafe Array(UnsafeBufferPointer(start: self.bytes, count: self.count)) }
}
