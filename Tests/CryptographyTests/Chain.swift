import Cryptography
import Foundation
import TestKit

/// A directory with certificates of its own, removed with the value's scope.
struct Chain {
    let certificates: DevelopmentCertificates

    var directory: String { self.certificates.directory }

    /// Makes certificates, lends them, removes them.
    /// - Parameter options: the certificates that are made for it alone; nil copies common ones.
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

/// The bytes of a file.
func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

/// The bytes that hexadecimal digits stand for.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
