/// Returns true if a media type, without its parameters, is `type`, or `type` with a suffix if `type` has none.
///
/// Source: RFC 9110 §8.3.1: types are compared without case, parameters follow a semicolon.
func isMediaType(_ text: String, _ type: String) -> Bool {
    let essence = mediaTypeEssence(text)
    return essence == type || (!type.contains("+") && essence.hasPrefix("\(type)+"))
}

/// Returns true if the data of an event with this content type is JSON in UTF-8.
///
/// Source: CloudEvents 1.0.2 §3.1, `datacontenttype`; RFC 6839 §3.1 for the suffix `+json`
func isJSONMediaType(_ text: String) -> Bool {
    let essence = mediaTypeEssence(text)
    return essence == "application/json" || essence == "text/json" || essence.hasSuffix("+json")
}

private func mediaTypeEssence(_ text: String) -> String {
    let essence = text.utf8.prefix { $0 != UInt8(ascii: ";") }
    let trimmed = essence.drop { $0 == 0x20 || $0 == 0x09 }
    let end = trimmed.lastIndex { $0 != 0x20 && $0 != 0x09 }.map { trimmed.index(after: $0) } ?? trimmed.startIndex
    return (String(trimmed[..<end]) ?? "").lowercased()
}
