import ArgumentParser
import Brands
import Model
import Operations
import Store
import Tokens

/// `waybill-packager order unlink KEY`
struct UnlinkOrderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlink",
        abstract: "Ends the links to an order that stand in mails.",
        discussion: """
            Gives the order another token of the current secret, in a new version that its devices are notified of. \
            Devices that have the order keep it, and the tokens that they have stay right. Links that were made \
            before this are void for good; new ones can be made at once. A package that somebody has fetched \
            already, and links for buttons, which are valid for a day at most, do not end.

            An order that brought its own token is left as it is: a change that brings another one ends its links.

            Exit codes: 0: done; 1: there is no such order, or it brought its token, or it cannot be packaged; 3: \
            Redis, Kafka or another writer got in the way, run it again; 78: the configuration is wrong.
            """)

    @Argument(help: "The order: <orderTypeIdentifier>/<orderIdentifier>.", transform: { try OrderKey($0) })
    var key: OrderKey

    func run() async throws {
        let (all, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let settings = try RefusedConfiguration.ending { try PackagerSettings(all, common: environment.common) }
        let (line, code) = Self.report(
            of: self.key, try await Self.unlink(self.key, settings, environment))
        StandardStream.output.write("\(self.key): \(line)\n")
        if code != 0 { throw ExitCode(code) }
    }

    /// Returns the line for a person, and the exit code.
    static func report(of key: OrderKey, _ outcome: OrderRepackager.Outcome) -> (line: String, code: Int32) {
        switch outcome {
        case .renewed: ("the links in mails have ended", 0)
        case .absent: ("there is no such order", 1)
        case .current, .signed: ("the order brought its token: a change that brings another one ends its links", 1)
        case .refused(let reason): ("nothing was done: \(reason)", 1)
        case .postponed(let reason): ("not now, run it again: \(reason)", 3)
        }
    }

    private static func unlink(
        _ key: OrderKey, _ settings: PackagerSettings, _ environment: ServiceEnvironment
    ) async throws -> OrderRepackager.Outcome {
        let type = key.orderType
        if let failure = settings.brands.failures.first(where: { $0.orderType == type }) { throw failure.error }
        let renewal = TokenRenewal(secrets: settings.tokens.secrets(for: type), endsLinks: true)
        return try await OrderRepackager.connected(to: type, settings, environment, renewal: renewal) {
            repackager, _, _ in
            do {
                return try await repackager.repackage([key])[0]
            } catch let failure as any UpstreamFailure where failure.origin.passes {
                return .postponed("\(failure)")
            }
        }
    }
}
