import NIOSSL

/// Returns the client's error for an error of the socket or of TLS.
///
/// With TLS 1.3 a server verifies the client's certificate after the handshake, so its alert may arrive on an open
/// connection.
func describeTransportError(_ error: any Error, wasOpen: Bool) -> APNSError {
    let action = wasOpen ? "talking TLS" : "shaking hands"
    switch error {
    case let error as APNSError:
        return error
    case NIOSSLError.uncleanShutdown:
        return wasOpen
            ? APNSError(.connectionLost, "waiting for answers: the connection was cut")
            : APNSError(.connecting, "shaking hands: the connection was cut")
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
        let text = "\(error)"
        if let alert = certificateAlert(in: text) {
            return APNSError(.credential, "\(action): APNs refused our certificate: \(alert)")
        }
        let isUntrusted = text.contains("CERTIFICATE_VERIFY_FAILED")
        let reason = isUntrusted ? "the server's certificate does not come from a trusted root" : text
        return APNSError(.tls, "\(action): \(reason)")
    default:
        return APNSError(wasOpen ? .connectionLost : .connecting, "talking to APNs: \(error)")
    }
}

/// Returns the name of the alert in an error's text if no attempt with the same certificate can succeed.
///
/// Other alerts may be a problem of one server or proxy, so they are merely retried.
/// Source: RFC 8446 §6.2; BoringSSL's names for them, ssl.h
func certificateAlert(in text: String) -> String? {
    for name in ["CERTIFICATE_REVOKED", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNKNOWN"]
    where text.contains("ALERT_" + name) {
        return name.lowercased()
    }
    return nil
}
