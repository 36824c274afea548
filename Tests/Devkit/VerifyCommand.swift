import ArgumentParser
import Foundation

/// `waybill-dev verify FILE.order --roots root.pem [--openssl]`
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Check an order package as Wallet would; exit code 1 with the list of violations.")

    @Argument(help: "The package.") var file: String
    @Option(help: "PEM file with the root that stands for Apple's.") var roots: String
    @Flag(help: "Let the openssl program check the signature.") var openssl = false

    func run() async throws {
        let verifier = try PackageVerifier(
            rootsPEM: readFile(self.roots), signatureCheck: self.openssl ? .openssl : .cryptography)
        let report = await verifier.verify(
            try readFile(self.file), nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        for violation in report.violations { Console.line("\(self.file): \(violation)") }
        guard report.violations.isEmpty else { throw ExitCode(1) }
        Console.line("\(self.file): valid: \(report.summary)")
        for file in report.files { Console.line("    \(file.size)\t\(file.name)") }
    }
}
