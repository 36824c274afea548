import CCrypto

/// Returns the version of OpenSSL that this process runs with.
public func openSSLVersion() -> String { unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }
