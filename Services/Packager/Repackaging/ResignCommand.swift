import ArgumentParser
import Brands
import Logging
import Model
import Operations
import Store
import Tokens

/// `waybill-packager resign`: packages stored orders again after a brand's certificate or files changed.
struct ResignCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resign",
        abstract: "Repackages the stored orders of a brand with its current certificate, assets and defaults.",
        discussion: """
            Packages in which only the signature differs are replaced in place: devices need nothing. Where files or \
            defaults differ, orders get a new version and their devices are notified. Up-to-date packages are skipped. \
            The command can be stopped and run again at any time: it resumes. Reads the same configuration as the \
            service; run it when the fleet has loaded the new brand.

            Exit codes: 0: done; 2: done, but some orders were refused (see the log); 3: stopped early, or some orders \
            could not be read (run it again); 1 or 64: it could not start, or cannot sign.
            """)

    @Option(help: "Order type identifier of the brand.", transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier

    @Option(help: "Maximum number of packages per second, 1 to 100000.")
    var rate = 200

    @Flag(help: "Print what would be done; write nothing.")
    var dryRun = false

    @Flag(help: "Also sign packages that the current certificate signed.")
    var all = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        let options = ResignRun.Options(rate: self.rate, evenIfCurrent: self.all, isDryRun: self.dryRun)
        try await Self.run(self.brand, options) { _ in nil }
    }

    /// Brings all stored orders of a brand up to date, with the configuration of the service.
    ///
    /// - Parameter renewal: returns the renewal of tokens; nil leaves them as they are.
    /// - Throws: `ExitCode` if the run did not do everything.
    static func run(
        _ brand: OrderTypeIdentifier, _ options: ResignRun.Options,
        renewal: (TokenSecrets) throws -> TokenRenewal?
    ) async throws {
        let (settings, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let own = try RefusedConfiguration.ending { try PackagerSettings(settings, common: environment.common) }
        if let failure = own.brands.failures.first(where: { $0.orderType == brand }) { throw failure.error }
        let line = ProgressLine(head: "\(brand): ", to: .error)
        let end = try await Self.resign(
            brand, own, environment, options, renewal: try renewal(own.tokens.secrets(for: brand))
        ) { line.show($0, isLast: $1) }
        switch end {
        case .done(let progress) where progress.postponed > 0:
            environment.logger.error(
                "some orders cannot be read now; run the command again",
                metadata: ["orders": "\(progress.postponed)"])
            throw ExitCode(3)
        case .done(let progress) where progress.refused == 0: return
        case .done: throw ExitCode(2)
        case .stopped: throw ExitCode(3)
        case .gaveUp(let reason):
            environment.logger.error(
                "stopped early; run the command again to continue", metadata: ["error": "\(reason)"])
            throw ExitCode(3)
        }
    }

    /// Makes a run with its connections, waits until it ends, and closes them.
    ///
    /// - Throws: `ValidationError` if the brand does not exist; errors that no retry can resolve.
    static func resign(
        _ type: OrderTypeIdentifier, _ settings: PackagerSettings, _ environment: ServiceEnvironment,
        _ options: ResignRun.Options, renewal: TokenRenewal? = nil,
        report: @escaping @Sendable (_ line: String, _ isLast: Bool) -> Void
    ) async throws -> ResignRun.End {
        try await OrderRepackager.connected(
            to: type, settings, environment, isDryRun: options.isDryRun, renewal: renewal
        ) { repackager, brand, redis in
            let run = ResignRun(
                type, purpose: renewal?.purpose ?? brand.stamp, options: options, scan: OrderScan(redis: redis),
                repackager: repackager, logger: environment.logger, report: report)
            try await environment.run(run)
            return run.end ?? .gaveUp("it was cancelled")
        }
    }
}
