import ArgumentParser
import TestKit

/// `waybill-dev certificates`: a development chain for one order type.
struct CertificatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certificates",
        abstract: "Makes root, intermediate, order type certificate, provider key and a TLS server certificate.",
        discussion: """
            Files: root.pem, intermediate.pem, certificate.pem, key.pem, provider-key.p8, server-certificate.pem, \
            server-key.pem. For development only: no device accepts this root.
            """)

    @Option(help: "The directory to write to; created if it is missing.")
    var out: String

    @Option(help: "The order type identifier, such as order.com.example.shop.")
    var orderType: String

    @Option(help: "The team identifier: ten of A-Z and 0-9.")
    var team: String = "TEAM123456"

    @Option(help: "A directory of an earlier call, to issue under the same root and intermediate.")
    var authority: String?

    @Option(name: .customLong("name"), help: "A DNS name of the server, beside localhost; may be repeated.")
    var names: [String] = []

    func run() throws {
        var options = DevelopmentCertificates.Options(
            orderType: self.orderType, team: self.team, authority: self.authority)
        options.serverNames = self.names
        _ = try DevelopmentCertificates.make(in: self.out, options)
    }
}
