/// The step that follows an answer.
enum FetchStep: Hashable, Sendable {
    case done(FetchResponse)
    /// Request this URL next.
    case redirect(FetchURL)
    case failed(FetchError)

    /// Judges one complete answer.
    ///
    /// - Parameters:
    ///   - url: the URL that was requested.
    ///   - redirects: the number of redirects that led there.
    ///   - retryAfterSeconds: the `Retry-After` of the answer, 0 if there was none.
    static func after(
        status: Int, headers: ResponseHeaders, body: [UInt8], url: FetchURL, redirects: Int, request: FetchRequest,
        retryAfterSeconds: Int64
    ) -> FetchStep {
        if request.takesAnyStatus {
            var content = FetchedContent(
                body: body, entityTag: headers.entityTag, lastModified: headers.lastModified)
            content.status = status
            content.contentType = headers.contentType
            return .done(.content(content))
        }
        switch status {
        case 200:
            return .done(
                .content(
                    FetchedContent(body: body, entityTag: headers.entityTag, lastModified: headers.lastModified)))
        // Only a conditional request can be answered with this.
        case 304 where request.entityTag != nil || request.lastModified != nil: return .done(.notModified)
        // Source: RFC 9110 §15.4
        case 301, 302, 303, 307, 308:
            guard let location = headers.location else { break }
            guard redirects < request.redirectLimit else {
                return .failed(
                    FetchError(
                        .tooManyRedirects,
                        "fetching from \(url.origin.host): more than \(request.redirectLimit) redirects"))
            }
            do throws(FetchError) {
                return .redirect(try self.admitted(try FetchURL(location, relativeTo: url), request))
            } catch {
                return .failed(error)
            }
        default: break
        }
        return .failed(
            FetchError(
                .status(status), "fetching from \(url.origin.host): status \(status)",
                retryAfterSeconds: retryAfterSeconds > 0 ? min(retryAfterSeconds, 86_400) : nil))
    }

    /// Returns the URL if the request allows its host.
    static func admitted(_ url: FetchURL, _ request: FetchRequest) throws(FetchError) -> FetchURL {
        guard request.allows(url.origin) else {
            throw FetchError(
                .hostNotAllowed, "fetching from \(url.origin.host), port \(url.origin.port): not an allowed host")
        }
        return url
    }
}
