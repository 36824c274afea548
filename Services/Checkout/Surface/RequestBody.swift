import HTTPServer
import Model
import NIOCore

/// The members of a request's JSON body, taken one by one, so that unknown members are noticed.
struct RequestBody {
    private var rest: JSONObject

    init(_ members: JSONObject) { self.rest = members }

    /// Reads the body as one JSON object.
    ///
    /// Only `application/json` is accepted: a body that a page may send without a preflight is not even read.
    /// Source: Fetch standard, "CORS-safelisted request-header"
    init(_ request: Request) throws(CheckoutFailure) {
        guard let type = request.fields[.contentType], Self.essence(of: type) == "application/json" else {
            throw CheckoutFailure(.unsupportedMediaType, "the body must be application/json")
        }
        self.rest = try Self.object(request.body)
    }

    /// Returns the media type without parameters, in lower case.
    static func essence(of type: String) -> String {
        let essence = type.utf8.prefix { $0 != UInt8(ascii: ";") }.filter { !$0.isBlank }
        return String(decoding: essence, as: UTF8.self).lowercased()
    }

    /// Parses the body as a JSON object, whatever the media type.
    static func object(_ body: ByteBuffer) throws(CheckoutFailure) -> JSONObject {
        let json: JSON
        do {
            json = try JSON(parsing: Array(body.readableBytesView))
        } catch {
            if error.code == .tooManyEntries {
                throw CheckoutFailure(.bodyTooLarge, "the body may have \(JSON.entryLimit) JSON values at most")
            }
            // The error of the parser may quote a name.
            let reason: String =
                switch error.code {
                case .duplicateName: "a member occurs twice"
                case .invalidUTF8: "it is not UTF-8"
                case .tooDeep: "it is nested too deeply"
                case .syntax, .tooManyEntries: "it is not JSON"
                }
            throw CheckoutFailure(.malformedBody, "the body cannot be read: \(reason) (at byte \(error.offset))")
        }
        guard let object = json.object else {
            throw CheckoutFailure(.malformedBody, "the body must be a JSON object, it is \(json.kind)")
        }
        return object
    }

    private mutating func take(_ name: String) -> JSON? {
        defer { self.rest[name] = nil }
        return self.rest[name]
    }

    /// Takes a text; nil if the member is missing.
    mutating func text(_ name: String) throws(CheckoutFailure) -> String? {
        guard let value = self.take(name) else { return nil }
        guard let text = value.string else {
            throw CheckoutFailure(.invalidParameter, "must be a string, it is \(value.kind)", param: name)
        }
        return text
    }

    mutating func requiredText(_ name: String) throws(CheckoutFailure) -> String {
        guard let text = try self.text(name) else {
            throw CheckoutFailure(.missingParameter, "is required", param: name)
        }
        return text
    }

    /// Takes a whole number within a range; `fallback` if the member is missing.
    mutating func integer(
        _ name: String, default fallback: Int64, in range: ClosedRange<Int64>
    ) throws(CheckoutFailure) -> Int64 {
        guard let value = self.take(name) else { return fallback }
        guard let number = value.integer, range.contains(number) else {
            throw CheckoutFailure(
                .invalidParameter, "must be a whole number from \(range.lowerBound) to \(range.upperBound)", param: name
            )
        }
        return number
    }

    /// Takes an object; nil if the member is missing.
    mutating func object(_ name: String) throws(CheckoutFailure) -> JSONObject? {
        guard let value = self.take(name) else { return nil }
        guard let object = value.object else {
            throw CheckoutFailure(.invalidParameter, "must be an object, it is \(value.kind)", param: name)
        }
        return object
    }

    /// Refuses members that were not taken: their names are usually mistyped.
    func refuseRest() throws(CheckoutFailure) {
        let count = self.rest.members.count
        guard count > 0 else { return }
        throw CheckoutFailure(
            .invalidParameter, "the body has \(count.counted("member")) that this path does not know")
    }
}
