import Cryptography
import Foundation
import TestKit

/// A temporary directory of certificates, removed when `with` returns.
struct Chain {
    let certificates: DevelopmentCertificates

    var directory: String { self.certificates.directory }

    /// Makes certificates, passes them to `body`, and removes them.
    /// - Parameter options: the certificates to make; nil copies shared ones.
    @discardableResult
    static func with<Result>(
        _ options: DevelopmentCertificates.Options? = nil,
        _ body: (Chain) throws -> Result
    ) throws -> Result {
        let directory = FileManager.default.temporaryDirectory.path + "/waybill-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let certificates =
            try options.map { try .make(in: directory, $0) } ?? DevelopmentCertificates.copy(to: directory)
        return try body(Chain(certificates: certificates))
    }

    func identity() throws -> SigningIdentity {
        try SigningIdentity(
            certificatePEM: bytes(self.certificates.certificate), privateKeyPEM: bytes(self.certificates.key),
            intermediatePEM: bytes(self.certificates.intermediate))
    }

    /// Writes a file into the directory and returns its path.
    func write(_ content: [UInt8], _ name: String) throws -> String {
        let path = self.directory + "/" + name
        try Data(content).write(to: URL(fileURLWithPath: path))
        return path
    }
}

/// Returns the bytes of a file.
func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

/// Returns the bytes that hexadecimal digits represent.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
