import APNS
import Model
import Testing

@testable import Devkit

@Suite struct LoadTestTests {
    @Test(arguments: [
        "https://api.push.apple.com", "https://api.push.apple.com:2197", "https://17.188.143.34", "https://localhost",
        "https://127.0.0.2:443", "https://push.example.com:443",
    ])
    func onlyThisMachineIsSentAnything(_ url: String) throws {
        #expect(!LoadTestCommand.isHere(try APNSEndpoint(url: url)))
    }

    @Test func loopbackAddressesCountAsThisMachine() throws {
        #expect(LoadTestCommand.isHere(try APNSEndpoint(url: "https://127.0.0.1:8443")))
        #expect(LoadTestCommand.isHere(try APNSEndpoint(url: "https://[::1]:8443")))
    }

    @Test func loadTestTargetsAreDeterministicAndDistinct() throws {
        let targets = try loadTestTargets(1_000)
        #expect(targets == (try loadTestTargets(1_000)))
        #expect(Set(targets).count == 1_000)
        #expect(targets.allSatisfy { $0.registration.pushToken.rawValue.utf8.count == 64 })
    }
}
