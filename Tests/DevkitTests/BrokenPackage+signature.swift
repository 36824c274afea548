@testable import Devkit

extension BrokenPackage {
    /// The arguments of `openssl cms -sign` for a good signature.
    static let signer = ["-signer", "certificate.pem", "-inkey", "key.pem", "-certfile", "intermediate.pem"]

    /// Returns a case with a signature that `openssl` makes with these arguments.
    private static func openssl(
        _ name: String, _ code: ViolationCode, mention: String, _ arguments: [String]
    ) -> BrokenPackage {
        BrokenPackage(name, code, mention: mention, seal: .nothing) { draft, fixture in
            draft["signature"] = try fixture.signatureByOpenSSL(arguments)
        }
    }

    /// Returns a case with a good signature by another certificate.
    private static func certificate(
        _ name: String, _ code: ViolationCode, mention: String,
        _ pem: @escaping @Sendable (PackageFixture) -> [String: [UInt8]]
    ) -> BrokenPackage {
        BrokenPackage(name, code, mention: mention, seal: .nothing) { draft, fixture in
            try draft.sign(fixture, pem(fixture))
        }
    }

    static let signatures: [BrokenPackage] = [
        BrokenPackage("a signature of other bytes", .signatureOtherContent, mention: "exact bytes", seal: .nothing) {
            draft, _ in draft["manifest.json"]?.append(UInt8(ascii: "\n"))
        },
        BrokenPackage("a changed signature", .signatureWrong, mention: "signer's key", seal: .nothing) { draft, _ in
            draft["signature"] = draft["signature"].map { $0.dropLast() + [($0.last ?? 0) ^ 1] }
        },
        BrokenPackage("an empty signature", .signatureUnreadable, mention: "DER", seal: .nothing) { draft, _ in
            draft["signature"] = []
        },
        BrokenPackage("a signature with a byte more", .signatureUnreadable, mention: "after", seal: .nothing) {
            draft, _ in draft["signature"]?.append(0)
        },
        BrokenPackage("a signature in PEM", .signatureNotDER, mention: "-outform DER", seal: .nothing) { draft, _ in
            draft["signature"] = Array("-----BEGIN CMS-----\nMIIB\n-----END CMS-----\n".utf8)
        },
        Self.openssl("content inside", .signatureAttached, mention: "detached", Self.signer + ["-nodetach"]),
        Self.openssl("no signed attributes", .signatureAttributes, mention: "-noattr", Self.signer + ["-noattr"]),
        Self.openssl("SHA-512", .signatureDigest, mention: "instead of SHA-256", Self.signer + ["-md", "sha512"]),
        Self.openssl("SHA-1", .signatureDigest, mention: "instead of SHA-256", Self.signer + ["-md", "sha1"]),
        Self.openssl(
            "RSA-PSS", .signatureAlgorithm, mention: "1.2.840.113549.1.1.10 instead of RSA",
            ["-signer", "certificate.pem", "-inkey", "key.pem", "-keyopt", "rsa_padding_mode:pss"]
                + ["-certfile", "intermediate.pem"]),
        Self.openssl(
            "two signers", .signatureSigners, mention: "2 signers",
            Self.signer + ["-signer", "root.pem", "-inkey", "root-key.pem"]),
        Self.openssl("no certificates", .signerMissing, mention: "must be, with", Self.signer + ["-nocerts"]),
        Self.openssl(
            "no intermediate", .intermediateMissing, mention: "WWDR",
            ["-signer", "certificate.pem", "-inkey", "key.pem"]),
        BrokenPackage("signed in an hour", .signingTimeFuture, mention: "future", seal: .nothing) { draft, fixture in
            try draft.sign(fixture, later: 3600)
        },
        BrokenPackage(
            "another authority", .chainUntrusted, .orderTypeMismatch, mention: "order.com.example.other", seal: .nothing
        ) { draft, fixture in try draft.sign(fixture, fixture.strangerPEM) },
        Self.certificate("an ended certificate", .certificateExpired, mention: "signer's") { $0.expiredPEM },
        Self.certificate("a certificate of tomorrow", .certificateNotYetValid, mention: "signer's") { $0.earlyPEM },
        Self.certificate("another order type", .orderTypeMismatch, mention: "order.com.example.other") {
            $0.otherTypePEM
        },
        Self.openssl(
            "a certificate without order type", .orderTypeMarker, mention: "1.2.840.113635.100.14.2",
            OddCertificates.signer("no-marker")),
        Self.openssl(
            "a certificate for passes", .orderSigningPurpose, mention: "1.2.840.113635.100.4.19",
            OddCertificates.signer("no-purpose")),
        Self.openssl(
            "an intermediate that is not Apple's", .intermediateMarker, mention: "1.2.840.113635.100.6.2.1",
            OddCertificates.signer("plain-leaf", under: "plain-intermediate")),
        Self.openssl(
            "a chain of two", .chainLength, mention: "A root issued", OddCertificates.signer("root-leaf", under: "root")
        ),
        Self.openssl(
            "a chain of four", .chainLength, mention: "more than",
            OddCertificates.signer("deep-leaf", under: "deep-intermediate", "intermediate")),
    ]
}
