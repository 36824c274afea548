import Browser
import Cryptography
import HTTPServer
import NIOCore
import NIOHTTP1

/// The files that shops' pages load. They are the same for all pages, so any page may load them.
struct BrowserFiles: Sendable {
    /// True if the stand-in for Apple Pay is served too. For development.
    let hasPolyfill: Bool
    private let digests: [BrowserFile: String]

    init(hasPolyfill: Bool) {
        self.hasPolyfill = hasPolyfill
        let files = BrowserFile.all + (hasPolyfill ? [BrowserFile.polyfill] : [])
        self.digests = Dictionary(uniqueKeysWithValues: files.map { ($0, SHA256.hex($0.bytes)) })
    }

    /// Answers with a file. A file that is requested with its digest never changes under that address, so a page may
    /// also name its integrity.
    func answer(_ request: Request, _ file: BrowserFile) throws(CheckoutFailure) -> Answer {
        guard let digest = self.digests[file] else { throw CheckoutRoute.nothing }
        let isNamed = RequestTarget(request.target).parameter("v") == digest
        let headers: HTTPHeaders = [
            "content-type": file.contentType, "etag": "\"\(digest)\"",
            "cache-control": isNamed ? "public, max-age=31536000, immutable" : "public, max-age=3600",
            "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin",
            "x-content-type-options": "nosniff",
        ]
        return request.fields.knows(entityTag: digest)
            ? Answer(.notModified, headers: headers)
            : Answer(.ok, headers: headers, body: [ByteBuffer(bytes: file.bytes)])
    }
}
