import CCrypto

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
