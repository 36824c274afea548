import ArgumentParser
import TestKit

/// `waybill-dev brand`: a brand's directory with development certificates and the example orders' files.
struct BrandCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brand", abstract: "Makes a brand's directory: brand.json, certificates, pictures, documents.")

    @Option(help: "The directory to write to; created if it is missing.")
    var out: String

    @Option(help: "The order type identifier, such as order.com.example.shop.")
    var orderType: String

    @Option(help: "The directory that `waybill-dev certificates` wrote.")
    var certificates: String

    func run() throws {
        try DevelopmentBrand.make(
            in: self.out, orderType: self.orderType,
            certificates: DevelopmentCertificates(directory: self.certificates))
    }
}
