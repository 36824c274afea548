import CCrypto

/// The refusal or failure of a cryptographic operation, in a sentence for the person who has to fix it.
///
/// Two errors are equal if their codes are.
public struct CryptographyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public enum Code: Hashable, Sendable {
        /// Bytes that are not a certificate, key or signature.
        case malformed
        /// A key of a kind other than this use requires.
        case unsupportedKey
        /// The private key belongs to another certificate.
        case keyMismatch
        /// The intermediate did not issue the certificate.
        case issuerMismatch
        /// A certificate that is not yet valid, or has expired.
        case notValidNow
        /// A signature that is not valid.
        case verification
        /// libcrypto failed where it should not, such as for lack of memory.
        case library
    }

    /// The kind of failure, for programs.
    public let code: Code
    /// The message for people: the action, the reason, the remedy. Never contains key material.
    public let message: String

    /// - Parameter message: gerund and reason, such as `"reading the certificate: not PEM"`.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }

    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
}

extension CryptographyError {
    /// Returns an error with libcrypto's entries on the calling thread's error queue, which is empty afterwards.
    static func drained(_ code: Code, _ message: String) -> CryptographyError {
        let entries = ErrorQueue.drain()
        return CryptographyError(code, entries.isEmpty ? message : "\(message) (\(entries.joined(separator: "; ")))")
    }
}

/// libcrypto's list of errors, one per thread.
///
/// Cleared before a call and drained after it, with no `await` between, after which the thread may be another one.
/// Source: openssl ERR_get_error(3)
enum ErrorQueue {
    /// Discards the errors that earlier calls on this thread left behind.
    static func clear() { ERR_clear_error() }

    /// Removes and returns the entries, oldest first. Bounded by libcrypto: it keeps at most 16.
    static func drain() -> [String] {
        var entries: [String] = []
        while true {
            let code = ERR_get_error()
            guard code != 0 else { return entries }
            entries.append(
                unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
                    // 256 characters were requested, so the buffer has an address.
                    unsafe ERR_error_string_n(code, buffer.baseAddress!, buffer.count)
                    return unsafe String(cString: buffer.baseAddress!)
                })
        }
    }
}

/// Returns the version of OpenSSL that this process runs with.
public func openSSLVersion() -> String { unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }
