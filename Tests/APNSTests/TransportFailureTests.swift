import NIOCore
import NIOSSL
import Testing

@testable import APNS

@Suite struct TransportFailureTests {
    @Test(
        arguments: [
            ("SSLV3_ALERT_CERTIFICATE_REVOKED", "certificate_revoked"),
            ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "certificate_expired"),
            ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "certificate_unknown"), ("TLSV1_ALERT_UNKNOWN_CA", nil),
            ("TLSV1_ALERT_CERTIFICATE_REQUIRED", nil), ("TLSV1_ALERT_INTERNAL_ERROR", nil),
            ("CERTIFICATE_EXPIRED", nil),
        ] as [(String, String?)])
    func onlyAlertsAboutTheCertificateItselfAreItsFault(_ name: String, _ alert: String?) {
        #expect(certificateAlert(in: "error:1000:SSL routines:OPENSSL_internal:\(name) at ssl.cc:1") == alert)
    }

    @Test func aTransportErrorIsALossOnlyOnAnOpenConnection() {
        #expect(describeTransportError(NIOSSLError.uncleanShutdown, wasOpen: true).code == .connectionLost)
        #expect(describeTransportError(NIOSSLError.uncleanShutdown, wasOpen: false).code == .connecting)
        #expect(describeTransportError(ChannelError.eof, wasOpen: true).code == .connectionLost)
        #expect(describeTransportError(NIOSSLError.noSuchFilesystemObject, wasOpen: true).code == .tls)
        #expect(describeTransportError(APNSError(.silent, ""), wasOpen: true).code == .silent)
    }
}
