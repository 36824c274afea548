import Cryptography
import Foundation

/// The implementation that verifies a signature: Shared/Cryptography in this process, or the `openssl` program as a
/// second opinion. Neither checks the time; the policy does.
enum SignatureCheck: Sendable {
    case cryptography
    case openssl

    /// The data to be verified.
    struct Question: Sendable {
        let signature: [UInt8]
        let content: [UInt8]
        let rootsPEM: [UInt8]
        /// False if the policy has already found that the chain does not lead to a root.
        let checksChain: Bool
        /// A time at which all certificates of the chain are valid, nil if there is none.
        let chainEpochSeconds: Int64?
    }

    /// - Returns: the violation, nil if the signature is valid.
    func violation(_ question: Question) async -> PackageViolation? {
        switch self {
        case .cryptography: Self.byCryptography(question)
        case .openssl: await Self.byOpenSSL(question)
        }
    }

    private static func byCryptography(_ question: Question) -> PackageViolation? {
        // CMS cannot verify a signature without its chain; a broken or expired chain has already been reported.
        guard question.checksChain, let moment = question.chainEpochSeconds else { return nil }
        do {
            _ = try CMS.verify(
                signature: question.signature, content: question.content, rootsPEM: question.rootsPEM,
                atEpochSeconds: moment)
            return nil
        } catch {
            // OpenSSL's name for the step that failed.
            let isChain = error.message.contains("certificate verify error")
            return Self.refused(isChain ? .chainUntrusted : .signatureWrong, error.message)
        }
    }

    /// Source: the command of Wallet Orders §2.4
    private static func byOpenSSL(_ question: Question) async -> PackageViolation? {
        do {
            return try await RunProgram.withScratchDirectory { directory in
                let path = { (name: String) in directory.appendingPathComponent(name).path }
                try Data(question.signature).write(to: URL(fileURLWithPath: path("signature")))
                try Data(question.content).write(to: URL(fileURLWithPath: path("manifest.json")))
                try Data(question.rootsPEM).write(to: URL(fileURLWithPath: path("roots.pem")))
                let command = [
                    "openssl", "cms", "-verify", "-inform", "DER", "-in", path("signature"), "-content",
                    path("manifest.json"), "-binary", "-CAfile", path("roots.pem"), "-purpose", "any",
                    "-no_check_time", "-out", "/dev/null",
                ]
                let withoutChain = command + ["-noverify"]
                let outcome = try await RunProgram.run(question.checksChain ? command : withoutChain)
                if outcome.status == 0 { return nil }
                // As in shells, 126 and above mean that the program could not be run or that a signal ended it.
                guard outcome.status < 126 else {
                    throw ToolError(.program, "running openssl: \(quoted(outcome.output))")
                }
                let isChain = question.checksChain ? try await RunProgram.run(withoutChain).status == 0 : false
                return Self.refused(
                    isChain ? .chainUntrusted : .signatureWrong, "openssl says \(quoted(outcome.output))")
            }
        } catch {
            return PackageViolation(.signatureNotChecked, "signature", "It could not be checked: \(error)")
        }
    }

    private static func refused(_ code: ViolationCode, _ reason: String) -> PackageViolation {
        let sentence =
            code == .chainUntrusted
            ? "The chain has the right names, but a certificate in it was not signed by the one above"
            : "It does not verify with the signer's key"
        return PackageViolation(code, "signature", "\(sentence): \(reason)")
    }
}
