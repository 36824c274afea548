import ArgumentParser
import Cryptography
import Kafka
import Model
import Redis

/// The tools for running Waybill without the real services around it: brokers, certificates, simulators, devices.
@main
struct Devkit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-dev",
        abstract: "Tools to run, feed and check Waybill.",
        version: ProgramVersion(
            "waybill-dev",
            libraries: [
                ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ]
        ).description,
        subcommands: [
            APNSCommand.self,
            BrandCommand.self,
            CertificatesCommand.self,
            ChaosCommand.self,
            CheckoutLoadCommand.self,
            DemoCommand.self,
            DeviceTrialCommand.self,
            FakesCommand.self,
            KafkaCommand.self,
            LoadTestCommand.self,
            PlaygroundCommand.self,
            PortsCommand.self,
            PublishCommand.self,
            ReplayCommand.self,
            SearchCommand.self,
            TokenCommand.self,
            VerifierCommand.self,
            VerifyCommand.self,
            VisitCommand.self,
            WalletCommand.self,
        ])
}
