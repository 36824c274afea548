import ArgumentParser

/// The tools around Waybill.
@main struct Devkit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-dev", abstract: "Tools around Waybill.",
        subcommands: [
            APNSCommand.self,
            CertificatesCommand.self,
        ])
}
