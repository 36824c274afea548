import ArgumentParser
import Foundation
import Model
import Tokens

/// `waybill-packager retoken`: gives the stored orders of a brand new tokens.
struct RetokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retoken",
        abstract: "Gives the stored orders of a brand tokens of the secret that mints now.",
        discussion: """
            Each order whose token was minted under another secret of the file gets a new version with a new token, \
            and its devices are told. While the old secret is still a line of the file, devices fetch that version \
            with the token they have, and from then on show the new one: nobody notices. So put the new secret in \
            front, run this, wait for a week (devices that are off are told within that time), then take the old line \
            out.

            After a leak, take the old line out at once and name it by --withdrawn: with this run the old tokens \
            stop opening anything. A device that has one gets 401: the order stays in Wallet as it is, without \
            updates, until its owner adds it again. Orders that brought tokens of their own keep them unless --all is \
            given; their devices get 401 likewise.

            May be stopped at any time and run again: it goes on where it was. Exit codes: 0 all done, 2 all done but \
            some orders were refused (see the log), 3 stopped or given up before the end (run it again), 1 it cannot \
            start.
            """)

    @Option(help: "Order type identifier of the brand.", transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier

    @Option(help: "Most orders a second, 1 to 100000.")
    var rate = 200

    @Option(help: "Path of a file with secrets that were taken out of the services' files, one a line.")
    var withdrawn: String?

    @Flag(help: "Say what would be done and write nothing.")
    var dryRun = false

    @Flag(help: "Replace also tokens that orders brought, or that come from secrets nobody has any more.")
    var all = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        let withdrawn = try self.withdrawn.map { path in
            do {
                return try TokenSecrets(file: Array(try Data(contentsOf: URL(filePath: path))))
            } catch let failure as TokenSecrets.Failure {
                throw ValidationError("--withdrawn \(path): \(failure)")
            } catch {
                throw ValidationError("--withdrawn \(path): cannot read the file: \(error.localizedDescription)")
            }
        }
        let options = ResignRun.Options(rate: self.rate, isDryRun: self.dryRun)
        try await ResignCommand.run(self.brand, options) { secrets in
            if let withdrawn, secrets.mints(underOneOf: withdrawn) {
                throw ValidationError("--withdrawn: the secret in the first line of the services' file is one of these")
            }
            return TokenRenewal(secrets: secrets, withdrawn: withdrawn, includesOthers: self.all)
        }
    }
}
