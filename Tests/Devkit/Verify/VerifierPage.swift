import CPlaygroundFiles
import Foundation
import Model
import TestKit

/// The page that judges packages: a person chooses one, and reads why Wallet would refuse it.
///
/// The program that serves the page is the judge, so its rules are those of `waybill-dev verify`, and a package goes
/// no further than to a process that the reader has started. Nothing of it is kept.
struct VerifierPage: Sendable {
    /// Most bytes of a request: a package of twice the size that Wallet takes, in base64, and a certificate.
    static let bodyLimit = 15 << 20

    /// The root for requests that bring none, in PEM; nil: they must bring one.
    let rootsPEM: [UInt8]?
    /// The name of that root, for people.
    let rootName: String

    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

    /// Answers a request for the page or a judgement; nil for any other.
    func response(to method: String, _ path: String, _ body: [UInt8]) async -> FakeServer.Response? {
        switch (method, path) {
        case ("GET", "/verifier"), ("HEAD", "/verifier"):
            unsafe Self.file(playground_verifier_html(), "text/html; charset=utf-8")
        case ("GET", "/verifier/verifier.mjs"):
            unsafe Self.file(playground_verifier(), "text/javascript; charset=utf-8")
        case ("GET", "/verifier/playground.css"):
            unsafe Self.file(playground_stylesheet(), "text/css; charset=utf-8")
        case ("GET", "/verifier/root"):
            FakeServer.Response.json(
                200, JSON.object(["name": self.rootsPEM == nil ? .null : .string(self.rootName)]).text)
        case ("POST", "/verifier/judge"): await self.judge(body)
        default: nil
        }
    }

    private func judge(_ body: [UInt8]) async -> FakeServer.Response {
        func refuse(_ message: String) -> FakeServer.Response { PlaygroundMerchant.failure(422, "malformed", message) }
        guard let members = (try? JSON(parsing: body))?.object, let text = members["package"]?.string,
            let package = Data(base64Encoded: text)
        else { return refuse("the body must have the package, in base64") }
        guard let roots = (members["root"]?.string).map({ Array($0.utf8) }) ?? self.rootsPEM else {
            return refuse("choose the root certificate: this program was started without one")
        }
        do {
            let report = try await PackageVerifier(rootsPEM: roots).verify(
                [UInt8](package), nowEpochSeconds: Int64(Date().timeIntervalSince1970))
            return .json(200, report.json(file: members["name"]?.string ?? "package").text)
        } catch {
            return refuse("\(error)")
        }
    }

    private static func file(_ file: playground_file, _ type: String) -> FakeServer.Response {
        FakeServer.Response(
            200,
            headers: [
                ("content-type", type), ("cache-control", "no-cache"), ("content-security-policy", Self.policy),
                ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
            ], body: unsafe Array(UnsafeBufferPointer(start: file.bytes, count: file.count)))
    }
}
