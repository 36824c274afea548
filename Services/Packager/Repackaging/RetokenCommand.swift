import ArgumentParser
import Model
import Operations
import Tokens

/// `waybill-packager retoken`: gives the stored orders of a brand new tokens.
struct RetokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retoken",
        abstract: "Gives the stored orders of a brand tokens minted with the current secret.",
        discussion: """
            Each order whose token was minted with another secret of the file gets a new version with a new token, and \
            its devices are notified. While the old secret is still a line of the file, devices fetch that version \
            with the token they have, and use the new one from then on: nobody notices. So put the new secret in \
            front, run this, wait for a week (devices that are off are notified within that time), then remove the old \
            line.

            After a leak, remove the old line at once and give it with --withdrawn: with this run the old tokens stop \
            opening anything. A device that has one gets 401: the order stays in Wallet as it is, without updates, \
            until its owner adds it again. Orders that brought tokens of their own keep them unless --all is given; \
            their devices then get 401 too.

            The command can be stopped and run again at any time: it resumes. Exit codes: 0: done; 2: done, but some \
            orders were refused (see the log); 3: stopped early (run it again); 1 or 64: it could not start, or cannot \
            sign.
            """)

    @Option(help: "Order type identifier of the brand.", transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier

    @Option(help: "Maximum number of orders per second, 1 to 100000.")
    var rate = 200

    @Option(help: "Path of a file with secrets that were removed from the services' files, one per line.")
    var withdrawn: String?

    @Flag(help: "Print what would be done; write nothing.")
    var dryRun = false

    @Flag(help: "Also replace tokens that orders brought, and tokens of unknown secrets.")
    var all = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        let withdrawn = try self.withdrawn.map { path in
            do {
                return try TokenSecrets(file: try FileContent.read(path, limit: 1 << 20, isPipeAllowed: true))
            } catch let failure as TokenSecrets.Failure {
                throw ValidationError("--withdrawn \(path): \(failure)")
            } catch {
                throw ValidationError("--withdrawn \(path): cannot read the file: \(error)")
            }
        }
        let options = ResignRun.Options(rate: self.rate, isDryRun: self.dryRun)
        try await ResignCommand.run(self.brand, options) { secrets in
            if let withdrawn, secrets.mints(underOneOf: withdrawn) {
                throw ValidationError("--withdrawn: the file contains the secret that mints now")
            }
            return TokenRenewal(secrets: secrets, withdrawn: withdrawn, includesOthers: self.all)
        }
    }
}
