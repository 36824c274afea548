import HTTPServer
import Model
import NIOCore

/// The body of a request in the dialect of payment providers: a form with brackets, or JSON. Names are in snake case or
/// in camel case, but not mixed in one object.
struct DialectBody {
    /// The body's media type, without parameters.
    let mediaType: String
    private let form: FormBody?
    private let object: JSONObject

    init(_ request: Request) throws(CheckoutFailure) {
        self.mediaType = request.fields[.contentType].map(RequestBody.essence) ?? ""
        switch self.mediaType {
        case "application/x-www-form-urlencoded":
            do throws(FormBody.Failure) {
                let form = try FormBody(Array(request.body.readableBytesView))
                self.form = form
                self.object = form.object
            } catch {
                throw CheckoutFailure(.malformedBody, "the body cannot be read: \(error.message)")
            }
        case "application/json":
            self.form = nil
            self.object = try RequestBody.object(request.body)
        default:
            throw CheckoutFailure(
                .unsupportedMediaType, "the body must be application/x-www-form-urlencoded or application/json")
        }
    }

    /// The members of the body itself.
    var members: DialectMembers { DialectMembers(self.object, path: "") }

    /// Returns the body without a member, in its original media type.
    ///
    /// - Parameter name: in snake case; the member in camel case is removed as well.
    func bytes(without name: String) -> [UInt8] {
        let other = DialectMembers.camel(name)
        if let form = self.form {
            return Array(
                form.pairs.filter { $0.path[0] != name && $0.path[0] != other }.map(\.raw)
                    .joined(separator: [UInt8(ascii: "&")]))
        }
        var object = self.object
        object[name] = nil
        object[other] = nil
        return object.serialized
    }
}

/// The members of an object in either spelling.
struct DialectMembers {
    private let path: String
    private let object: JSONObject

    /// - Parameter path: that of the object, for `param`; empty for the body itself.
    init(_ object: JSONObject, path: String) {
        self.path = path
        self.object = object
    }

    /// Converts `order_identifier` to `orderIdentifier`. An abbreviation is in capitals, as Apple writes it.
    static func camel(_ name: String) -> String {
        let words = name.split(separator: "_")
        return words.prefix(1).joined()
            + words.dropFirst().map { $0 == "url" ? "URL" : $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }

    private func param(_ name: String) -> String { self.path.isEmpty ? name : "\(self.path)[\(name)]" }

    private func value(_ name: String) throws(CheckoutFailure) -> JSON? {
        let camel = Self.camel(name)
        guard camel != name else { return self.object[name] }
        guard self.object[name] == nil || self.object[camel] == nil else {
            throw CheckoutFailure(.invalidParameter, "is given in both spellings", param: self.param(name))
        }
        return self.object[name] ?? self.object[camel]
    }

    /// Refuses an object that has one name in snake case and another one in camel case.
    func refuseMixture(of names: [String]) throws(CheckoutFailure) {
        let isSnake = names.contains { Self.camel($0) != $0 && self.object[$0] != nil }
        let isCamel = names.contains { Self.camel($0) != $0 && self.object[Self.camel($0)] != nil }
        guard !isSnake || !isCamel else {
            throw CheckoutFailure(
                .invalidParameter, "the names must be only in snake case or only in camel case",
                param: self.path.isEmpty ? nil : self.path)
        }
    }

    /// Returns a text; nil if the member is missing. A number is refused, since a part of it may have been lost.
    func text(_ name: String) throws(CheckoutFailure) -> String? {
        guard let value = try self.value(name) else { return nil }
        guard let text = value.string else {
            throw CheckoutFailure(.invalidParameter, "must be a string, it is \(value.kind)", param: self.param(name))
        }
        return text
    }

    func requiredText(_ name: String) throws(CheckoutFailure) -> String {
        guard let text = try self.text(name) else {
            throw CheckoutFailure(.missingParameter, "is required", param: self.param(name))
        }
        return text
    }

    /// Returns true or false, which may be given as text; false if the member is missing.
    func flag(_ name: String) throws(CheckoutFailure) -> Bool {
        switch try self.value(name) {
        case nil, .bool(false)?, .string("false")?: return false
        case .bool(true)?, .string("true")?: return true
        default: throw CheckoutFailure(.invalidParameter, "must be true or false", param: self.param(name))
        }
    }

    /// Returns an object; nil if the member is missing.
    func object(_ name: String) throws(CheckoutFailure) -> JSONObject? {
        guard let value = try self.value(name) else { return nil }
        guard let object = value.object else {
            throw CheckoutFailure(.invalidParameter, "must be an object, it is \(value.kind)", param: self.param(name))
        }
        return object
    }
}
