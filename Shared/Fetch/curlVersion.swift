import CCurl

/// Returns the version of libcurl that this process runs with.
public func curlVersion() -> String {
    // The answer is static memory, never NULL, and has the version since the first of its layouts.
    unsafe String(cString: curl_version_info(CURLVERSION_FIRST).pointee.version)
}
