import ArgumentParser
import Foundation
import Model

/// `waybill-dev verify FILE.order --root root.pem`
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Verifies an order package as Wallet would, and names each violation.",
        discussion: """
            One line for each violation: FILE: code: place: correction. The codes are stable. A valid package has one \
            line for each place that does not keep Apple's guidelines: FILE: advice: code: place: correction. The root is Apple Root \
            CA in PEM for a real package, root.pem of the development certificates for one of our own.

            Exit code 0: valid. 1: violations. 2: the package, the root or the openssl program is not available.
            """)

    @Argument(help: "The package.") var file: String
    @Option(
        name: [.customLong("root"), .customLong("roots")], help: "PEM file with the root used in place of Apple's.")
    var root: String
    @Option(help: "The time to verify for, such as 2026-01-31T12:00:00Z, instead of now.") var at: String?
    @Flag(help: "Print one JSON object instead of lines.") var json = false
    @Flag(inversion: .prefixedNo, help: "Verify the signature with the openssl program; otherwise with libcrypto.")
    var openssl = true

    func run() async throws {
        var now = Int64(Date().timeIntervalSince1970)
        if let at = self.at {
            guard let moment = RFC3339.parse(at) else { throw ValidationError("--at \(at) is no RFC 3339 date-time") }
            now = moment
        }
        let report: PackageReport
        do {
            let verifier = try PackageVerifier(
                rootsPEM: readFile(self.root), signatureCheck: self.openssl ? .openssl : .cryptography)
            report = await verifier.verify(try readFile(self.file), nowEpochSeconds: now)
        } catch {
            Console.progress("waybill-dev verify: \(error)")
            throw ExitCode(2)
        }
        if self.json {
            Console.line(report.json(file: self.file).text)
        } else {
            for violation in report.violations { Console.line("\(self.file): \(violation)") }
            if report.violations.isEmpty {
                Console.line("\(self.file): valid: \(report.summary)")
                for file in report.files { Console.line("    \(file.size)\t\(file.name)") }
                for finding in report.guidelines { Console.line("\(self.file): advice: \(finding)") }
            }
        }
        if report.violations.contains(where: { $0.code == .signatureNotChecked }) { throw ExitCode(2) }
        guard report.violations.isEmpty else { throw ExitCode(1) }
    }
}
