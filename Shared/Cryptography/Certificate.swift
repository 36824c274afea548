import CCrypto

/// The content of a certificate, read once and kept as plain values.
public struct Certificate: Hashable, Sendable {
    /// The certificate itself. Source: RFC 5280 §4.1
    public let der: [UInt8]
    /// The name of its holder, last part first: `C=US,OU=TEAM123456,CN=…,UID=order.com.example.shop`. Source: RFC 2253
    public let subject: String
    /// The name of its issuer, in the same form.
    public let issuer: String
    /// The UID of the subject: the order type identifier in an order type's certificate. Source: Wallet Orders §7
    public let userIdentifier: String?
    /// The OU of the subject: the team in an order type's certificate. Source: Wallet Orders §7
    public let organizationalUnit: String?
    /// The first second in which it is valid.
    public let notBeforeEpochSeconds: Int64
    /// The last second in which it is valid. Source: RFC 5280 §4.1.2.5
    public let notAfterEpochSeconds: Int64
    /// The name of its own key, if it has that extension. Source: RFC 5280 §4.2.1.2
    public let subjectKeyIdentifier: [UInt8]?
    /// The name of the key that signed it, if it has that extension. Source: RFC 5280 §4.2.1.1
    public let authorityKeyIdentifier: [UInt8]?
    /// The purposes that its key may be used for, as dotted object identifiers. Source: RFC 5280 §4.2.1.12
    let extendedKeyUsages: [String]
    /// The extensions by dotted object identifier, in the order of the certificate, with their DER.
    let extensions: [Extension]
    /// The issuer's name in DER, for signatures that name this certificate.
    let issuerDER: [UInt8]
    /// The serial number as a DER integer.
    let serialNumberDER: [UInt8]

    /// One extension, undecoded.
    struct Extension: Hashable, Sendable {
        let objectIdentifier: String
        let value: [UInt8]
    }
}

extension Certificate {
    /// Reads the first certificate of a PEM text.
    /// - Throws: `CryptographyError` `.malformed` if there is none.
    public init(pem: [UInt8]) throws(CryptographyError) {
        try self.init(X509Object(pem: pem, name: "the certificate"))
    }

    /// Reads a certificate as TLS passes it.
    /// - Throws: `CryptographyError` `.malformed` if the bytes are not one certificate and nothing else.
    public init(der: [UInt8]) throws(CryptographyError) {
        try self.init(X509Object(der: der, name: "the certificate"))
    }

    /// Returns true if the key may be used for a purpose.
    /// - Parameter objectIdentifier: the dotted form, such as `1.2.840.113635.100.4.19`.
    public func hasExtendedKeyUsage(_ objectIdentifier: String) -> Bool {
        self.extendedKeyUsages.contains(objectIdentifier)
    }

    /// Returns true if the certificate has an extension, with any value.
    public func hasExtension(_ objectIdentifier: String) -> Bool {
        self.extensions.contains { $0.objectIdentifier == objectIdentifier }
    }

    /// Returns the text of an extension whose value is one DER string of any kind.
    /// - Returns: nil if the extension is missing or not a string.
    public func extensionText(_ objectIdentifier: String) -> String? {
        self.extensions.first { $0.objectIdentifier == objectIdentifier }.flatMap { DERReader.text($0.value) }
    }

    /// Refuses a moment outside the certificate's validity.
    /// - Throws: `CryptographyError` `.notValidNow`, which names the certificate.
    public func checkValidity(atEpochSeconds now: Int64) throws(CryptographyError) {
        if now < self.notBeforeEpochSeconds {
            throw CryptographyError(
                .notValidNow,
                "checking certificate \"\(self.subject)\": it becomes valid only in "
                    + "\(Self.days(from: now, to: self.notBeforeEpochSeconds)); is the clock right?")
        }
        if now > self.notAfterEpochSeconds {
            throw CryptographyError(
                .notValidNow,
                "checking certificate \"\(self.subject)\": it expired "
                    + "\(Self.days(from: self.notAfterEpochSeconds, to: now)) ago; renew it")
        }
    }

    private static func days(from: Int64, to: Int64) -> String {
        let days = to.subtractingReportingOverflow(from).partialValue / 86_400
        return days == 1 ? "1 day" : "\(days) days"
    }
}

extension Certificate {
    /// Reads all values out of libcrypto's object.
    init(_ object: borrowing X509Object) throws(CryptographyError) {
        ErrorQueue.clear()
        defer { ErrorQueue.clear() }

        self = unsafe try object.withRaw { raw throws(CryptographyError) in unsafe try Certificate(raw) }
    }

    /// - Parameter raw: borrowed; it remains the caller's.
    private init(_ raw: OpaquePointer) throws(CryptographyError) {
        let subject = unsafe X509_get_subject_name(raw)
        let issuer = unsafe X509_get_issuer_name(raw)
        guard let notBefore = unsafe epochSeconds(X509_get0_notBefore(raw)),
            let notAfter = unsafe epochSeconds(X509_get0_notAfter(raw))
        else { throw CryptographyError.drained(.malformed, "reading a certificate: its validity is not a time") }
        self.init(
            der: unsafe encoded { unsafe i2d_X509(raw, $0) },
            subject: unsafe text(of: subject),
            issuer: unsafe text(of: issuer),
            userIdentifier: unsafe entry(NID_userId, of: subject),
            organizationalUnit: unsafe entry(NID_organizationalUnitName, of: subject),
            notBeforeEpochSeconds: notBefore,
            notAfterEpochSeconds: notAfter,
            subjectKeyIdentifier: unsafe X509_get0_subject_key_id(raw).map { unsafe bytes(of: $0) },
            authorityKeyIdentifier: unsafe X509_get0_authority_key_id(raw).map { unsafe bytes(of: $0) },
            extendedKeyUsages: unsafe Self.extendedKeyUsages(raw),
            extensions: unsafe Self.extensions(raw),
            issuerDER: unsafe encoded { unsafe i2d_X509_NAME(issuer, $0) },
            serialNumberDER: unsafe encoded { unsafe i2d_ASN1_INTEGER(X509_get0_serialNumber(raw), $0) })
    }

    private static func extendedKeyUsages(_ raw: OpaquePointer) -> [String] {
        guard let usages = unsafe X509_get_ext_d2i(raw, NID_ext_key_usage, nil, nil) else { return [] }
        let stack = OpaquePointer(usages)
        defer { unsafe EXTENDED_KEY_USAGE_free(stack) }

        return unsafe (0..<OPENSSL_sk_num(stack)).map { index in
            unsafe dotted(OpaquePointer(OPENSSL_sk_value(stack, index)))
        }
    }

    private static func extensions(_ raw: OpaquePointer) -> [Extension] {
        unsafe (0..<X509_get_ext_count(raw)).compactMap { index in
            let item = unsafe X509_get_ext(raw, index)
            guard let value = unsafe X509_EXTENSION_get_data(item) else { return nil }
            return unsafe Extension(
                objectIdentifier: dotted(X509_EXTENSION_get_object(item)), value: bytes(of: value))
        }
    }
}

/// Returns the output of an `i2d_…` function; empty if it fails.
func encoded(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8] {
    let length = write(nil)
    guard length > 0 else { return [] }
    return unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { output, count in
        var cursor = output.baseAddress
        count = max(0, Int(unsafe write(&cursor)))
    }
}

/// Returns the seconds from 1970 to a time, or nil if it is not a time.
func epochSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
    let epoch = unsafe ASN1_TIME_set(nil, 0)
    defer { unsafe ASN1_TIME_free(epoch) }

    var days: Int32 = 0
    var seconds: Int32 = 0
    guard let time = unsafe time, unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
    return Int64(days) * 86_400 + Int64(seconds)
}

private func bytes(of string: UnsafePointer<ASN1_STRING>) -> [UInt8] {
    let length = unsafe Int(ASN1_STRING_length(string))
    return unsafe Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(string), count: max(0, length)))
}

/// Returns the first entry of a kind in a name.
private func entry(_ kind: Int32, of name: OpaquePointer?) -> String? {
    let index = unsafe X509_NAME_get_index_by_NID(name, kind, -1)
    guard index >= 0, let data = unsafe X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)) else { return nil }
    var utf8: UnsafeMutablePointer<UInt8>?
    let length = unsafe ASN1_STRING_to_UTF8(&utf8, data)
    guard length >= 0 else { return nil }
    defer { unsafe ccrypto_free(utf8) }

    return unsafe String(decoding: UnsafeBufferPointer(start: utf8, count: Int(length)), as: UTF8.self)
}

private func text(of name: OpaquePointer?) -> String {
    let bio = unsafe BIO_new(BIO_s_mem())
    defer { unsafe BIO_free(bio) }

    guard unsafe X509_NAME_print_ex(bio, name, 0, ccrypto_name_flags()) >= 0 else { return "" }
    let capacity = unsafe BIO_ctrl_pending(bio)
    let utf8 = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
        // A name in a certificate that was just parsed is far below 2 GiB, and `clamping` cannot trap anyway.
        count = unsafe max(0, Int(BIO_read(bio, output.baseAddress, Int32(clamping: output.count))))
    }
    return String(decoding: utf8, as: UTF8.self)
}

/// Returns an object identifier in digits and dots.
private func dotted(_ object: OpaquePointer?) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
        // Writes at most 128 characters including the final zero; 128 were requested, so there is an address.
        guard unsafe OBJ_obj2txt(buffer.baseAddress, 128, object, 1) > 0 else { return "" }
        return unsafe String(cString: buffer.baseAddress!)
    }
}

/// Returns true if a name in a certificate is that of a host, as TLS clients compare them.
///
/// Case does not matter, an asterisk stands for the whole left-most label, and a dot at the end is ignored.
/// Source: RFC 9525 §6.3
/// - Parameters:
///   - host: the host as it was requested, in ASCII.
///   - name: the content of a subjectAltName of type dNSName.
public func isHost(_ host: String, named name: some Collection<UInt8>) -> Bool {
    let host = labels(host.utf8)
    let name = labels(name)
    guard host.count == name.count, let first = name.first, !host.contains(where: \.isEmpty) else { return false }
    if host == name { return true }
    // Not for a whole top-level domain.
    return first == [UInt8(ascii: "*")] && name.count > 2 && host.dropFirst() == name.dropFirst()
}

private func labels(_ name: some Collection<UInt8>) -> [[UInt8]] {
    let lower = name.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    let labels = lower.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
    return labels.count > 1 && labels.last == [] ? labels.dropLast() : labels
}

/// The sole owner of one `X509 *`.
@safe
struct X509Object: ~Copyable {
    private let raw: OpaquePointer

    /// Reads the first certificate of a PEM text.
    /// - Parameter name: the name of the certificate in the error: `"the certificate"`.
    init(pem: [UInt8], name: String) throws(CryptographyError) {
        ErrorQueue.clear()
        let parsed: OpaquePointer? = unsafe MemoryInput.with(pem) { bio in
            unsafe PEM_read_bio_X509(bio, nil, refusePassword, nil)
        }
        guard let parsed = unsafe parsed else {
            // Apple's portal gives DER, which begins with the tag of a sequence.
            let isDER = pem.first == DER.sequence
            throw CryptographyError.drained(
                .malformed,
                "reading \(name): "
                    + (isDER
                        ? "it is DER; convert it with openssl x509 -inform DER -in FILE.cer -out FILE.pem"
                        : "no PEM text between BEGIN CERTIFICATE and END CERTIFICATE was found"))
        }
        unsafe self.raw = parsed
    }

    /// Reads a certificate in DER, with nothing after it.
    init(der: [UInt8], name: String) throws(CryptographyError) {
        ErrorQueue.clear()
        var length = 0
        let parsed = unsafe der.withUnsafeBufferPointer { buffer in
            let start = buffer.baseAddress
            var cursor = unsafe start
            let parsed = unsafe d2i_X509(nil, &cursor, buffer.count)
            if let cursor = unsafe cursor, let start = unsafe start { length = unsafe cursor - start }
            return unsafe parsed
        }
        guard let parsed = unsafe parsed else {
            throw CryptographyError.drained(.malformed, "reading \(name): it is not a certificate in DER")
        }
        guard length == der.count else {
            unsafe X509_free(parsed)
            throw CryptographyError(.malformed, "reading \(name): \(der.count - length) bytes follow it")
        }
        unsafe self.raw = parsed
    }

    /// Takes over one reference that the caller owned.
    init(owning raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(self.raw) }

    /// Lends the pointer. It must not leave the closure.
    func withRaw<Result>(_ body: (OpaquePointer) throws(CryptographyError) -> Result) throws(CryptographyError)
        -> Result
    { unsafe try body(self.raw) }
}

/// Bytes as libcrypto reads them.
enum MemoryInput {
    /// Lends a `BIO *` over the bytes; nil if there are none, or too many for its length.
    static func with<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { buffer in
            // An empty array has no address, which libcrypto treats as an error, like a nil BIO.
            guard let length = Int32(exactly: buffer.count), let start = buffer.baseAddress else {
                return body(nil)
            }
            let bio = unsafe BIO_new_mem_buf(start, length)
            defer { unsafe BIO_free(bio) }

            return unsafe body(bio)
        }
    }
}

/// Replaces libcrypto's own callback, which would ask at the terminal and wait forever.
///
/// Source: openssl PEM_read_bio_PrivateKey(3): less than zero is an error
func refusePassword(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ writing: Int32, _ context: UnsafeMutableRawPointer?
) -> Int32 { -1 }
