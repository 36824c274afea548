/// A header field that only some roles read.
struct RequestField: Hashable, Sendable {
    /// The names that are kept, in lower case.
    enum Name: String, CaseIterable, Sendable {
        case accept
        case accessControlRequestHeaders = "access-control-request-headers"
        case accessControlRequestMethod = "access-control-request-method"
        case contentType = "content-type"
        case cookie
        case fetchSite = "sec-fetch-site"
        case host
        case idempotencyKey = "idempotency-key"
        case key = "x-api-key"
        case origin
        case referer
        case basketToken = "waybill-basket-token"

        init?(_ name: Span<UInt8>) {
            guard (4...30).contains(name.count) else { return nil }
            var text = ""
            for index in name.indices { text.unicodeScalars.append(Unicode.Scalar(name[index].lowercasedASCII)) }
            self.init(rawValue: text)
        }
    }

    let name: Name
    let value: String
}

extension Request.Fields {
    /// The value of a field that occurs once; nil if it is absent or repeated.
    subscript(name: RequestField.Name) -> String? {
        let values = self.others.filter { $0.name == name }
        return values.count == 1 ? values[0].value : nil
    }

    /// True if a field occurs more than once.
    func isRepeated(_ name: RequestField.Name) -> Bool { self.others.count { $0.name == name } > 1 }
}
