import Foundation
import Model
import NIOHTTP1

/// A device with Wallet, as seen by the gateway. It fetches, registers, lists and fetches again, and checks everything.
///
/// Keeps the same data as Wallet: for each order the token, `Last-Modified` as an opaque string and the newest version;
/// one tag for the list. Source: Wallet Orders §1.2, §1.3
actor WalletDevice {
    /// The result of a fetch.
    enum Fetch: Sendable {
        /// A new version, already verified.
        case version(PackageReport)
        case notModified
        /// 401: unknown order or wrong token.
        case unauthorized
        /// 503: the package is being made.
        case unavailable(retryAfterSeconds: Int64)
    }

    private struct TrackedOrder {
        let token: String
        var lastModified: String?
        var report: PackageReport?
        var package: [UInt8] = []
        var versions = 0
    }

    nonisolated let deviceIdentifier: String
    nonisolated let pushToken: String
    private nonisolated let base: String
    private nonisolated let orderType: OrderTypeIdentifier
    private nonisolated let http: HTTPClient
    private nonisolated let verifier: PackageVerifier
    private var orders: [String: TrackedOrder] = [:]
    private var tag: String?
    /// The orders of fetches answered with 401, which is wrong for a valid token.
    private(set) var unauthorizedFetches: [String] = []

    /// - Parameters:
    ///   - gateway: the base URL; `/v1/…` is appended.
    ///   - deviceIdentifier: the device's own identifier.
    ///   - pushToken: hexadecimal digits.
    init(
        gateway: String, orderType: OrderTypeIdentifier, http: HTTPClient, verifier: PackageVerifier,
        deviceIdentifier: String = randomHex(bytes: 16), pushToken: String = randomHex(bytes: 32)
    ) {
        self.base = gateway.hasSuffix("/") ? String(gateway.dropLast()) : gateway
        self.orderType = orderType
        self.http = http
        self.verifier = verifier
        self.deviceIdentifier = deviceIdentifier
        self.pushToken = pushToken
    }

    /// Adds an order to the device, with the data that the merchant hands over at payment.
    func add(order: String, token: String) {
        if self.orders[order] == nil { self.orders[order] = TrackedOrder(token: token) }
    }

    /// The orders on the device, sorted.
    var orderIdentifiers: [String] { self.orders.keys.sorted() }
    /// Returns what was found in the newest package of an order; nil before the first.
    func report(_ identifier: String) -> PackageReport? { self.orders[identifier]?.report }
    /// Returns the newest version of an order's order.json; nil before the first.
    func order(_ identifier: String) -> JSON? { self.orders[identifier]?.report?.order }
    /// Returns the newest package of an order as received; empty before the first.
    func package(_ identifier: String) -> [UInt8] { self.orders[identifier]?.package ?? [] }
    /// Returns the number of versions of an order that the device has seen.
    func versions(_ identifier: String) -> Int { self.orders[identifier]?.versions ?? 0 }
    /// Returns `Last-Modified` of the newest version.
    func lastModified(_ identifier: String) -> String? { self.orders[identifier]?.lastModified }

    /// Fetches an order, conditionally once it has a version, and verifies the package.
    /// - Parameter isConditional: false to request the package even if the device has it.
    /// - Throws: `ToolError` with code `.check` if the gateway or the package breaks a rule.
    func fetch(_ identifier: String, isConditional: Bool = true) async throws(ToolError) -> Fetch {
        guard let known = self.orders[identifier] else {
            throw ToolError(.input, "fetching \(identifier): the device does not have it")
        }
        var request = HTTPRequest(url: "\(self.base)/v1/orders/\(self.orderType)/\(identifier)")
        request.headers.append(("authorization", "AppleOrder \(known.token)"))
        if isConditional, let lastModified = known.lastModified {
            request.headers.append(("if-modified-since", lastModified))
        }
        let response = try await self.http.send(request, within: .seconds(20))
        switch response.status {
        case 200: return .version(try await self.take(response, of: identifier))
        case 304:
            guard response.body.isEmpty else { throw ToolError(.check, "fetching \(identifier): 304 with a body") }
            guard isConditional, known.lastModified != nil else {
                throw ToolError(.check, "fetching \(identifier): 304 without If-Modified-Since")
            }
            return .notModified
        case 401:
            self.unauthorizedFetches.append(identifier)
            return .unauthorized
        case 503:
            let seconds = response.header("retry-after").flatMap { Int64($0) } ?? 1
            return .unavailable(retryAfterSeconds: min(max(seconds, 0), 30))
        default: throw ToolError(.check, "fetching \(identifier): status \(response.status)")
        }
    }

    private func take(_ response: HTTPResponse, of identifier: String) async throws(ToolError) -> PackageReport {
        guard response.header("content-type") == "application/vnd.apple.finance.order" else {
            throw ToolError(
                .check, "fetching \(identifier): Content-Type is \(response.header("content-type") ?? "missing")")
        }
        guard let lastModified = response.header("last-modified") else {
            throw ToolError(.check, "fetching \(identifier): no Last-Modified")
        }
        let report = await self.verifier.verify(
            response.body, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        if let violation = report.violations.first { throw ToolError(.check, "verifying \(identifier): \(violation)") }
        let members = report.order?.object
        guard members?["orderIdentifier"]?.string == identifier,
            members?["orderTypeIdentifier"]?.string == self.orderType.rawValue
        else { throw ToolError(.check, "verifying \(identifier): the package is another order's") }
        guard let updated = report.updatedAtEpochSeconds else {
            throw ToolError(.check, "verifying \(identifier): updatedAt is not a date-time")
        }
        // The actor's state may have changed while the answer was in flight, so compare with the present one.
        if let known = self.orders[identifier]?.report, let before = known.updatedAtEpochSeconds {
            guard updated >= before else {
                throw ToolError(
                    .older, "verifying \(identifier): updatedAt went back by \(before - updated) s (existing is newer)")
            }
            guard updated > before || known.order == report.order else {
                throw ToolError(.check, "verifying \(identifier): two versions have one updatedAt")
            }
            if updated == before { return report }
        }
        self.orders[identifier]?.lastModified = lastModified
        self.orders[identifier]?.report = report
        self.orders[identifier]?.package = response.body
        self.orders[identifier]?.versions += 1
        return report
    }

    /// Fetches an order that was just paid for; retries after 401 and 503, with backoff.
    /// - Throws: `ToolError` with code `.timeout` if there is still no package after `deadline`.
    func firstFetch(_ identifier: String, within deadline: Duration) async throws -> PackageReport {
        let end = ContinuousClock.now + deadline
        var pause = Duration.milliseconds(50)
        while true {
            switch try await self.fetch(identifier) {
            case .version(let report): return report
            case .notModified: if let report = self.orders[identifier]?.report { return report }
            case .unauthorized: break
            case .unavailable(let seconds): pause = max(pause, .seconds(seconds))
            }
            guard ContinuousClock.now + pause < end else {
                throw ToolError(.timeout, "fetching \(identifier): no package within \(deadline)")
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(2))
        }
    }

    /// Registers for an order's pushes.
    /// - Returns: true if the registration is new (201), false if it existed (200).
    func register(_ identifier: String) async throws(ToolError) -> Bool {
        guard let token = self.orders[identifier]?.token else {
            throw ToolError(.input, "registering for \(identifier): the device does not have it")
        }
        let response = try await self.http.send(
            HTTPRequest(
                method: .POST, url: self.registrationURL + "/\(identifier)",
                headers: [("authorization", "AppleOrder \(token)"), ("content-type", "application/json")],
                body: JSON.object(["pushToken": .string(self.pushToken)]).serialized),
            within: .seconds(20))
        guard response.status == 200 || response.status == 201 else {
            throw Self.refusal(response.status, "registering for \(identifier)")
        }
        return response.status == 201
    }

    /// Unregisters from an order's pushes.
    func unregister(_ identifier: String) async throws(ToolError) {
        guard let token = self.orders[identifier]?.token else { return }
        let response = try await self.http.send(
            HTTPRequest(
                method: .DELETE, url: self.registrationURL + "/\(identifier)",
                headers: [("authorization", "AppleOrder \(token)")]))
        guard response.status == 200 else {
            throw Self.refusal(response.status, "unregistering from \(identifier)")
        }
    }

    /// Requests the orders that changed since the last list, and keeps the new tag.
    /// - Returns: the orders' identifiers; empty after 204.
    func changedOrders() async throws(ToolError) -> [String] {
        let query = self.tag.map { "?ordersModifiedSince=\(Self.escaped($0))" } ?? ""
        let response = try await self.http.send(HTTPRequest(url: self.registrationURL + query))
        switch response.status {
        case 204: return []
        case 200:
            guard let object = (try? JSON(parsing: response.body))?.object,
                let identifiers = object["orderIdentifiers"]?.array?.compactMap(\.string),
                let tag = object["lastModified"]?.string
            else { throw ToolError(.check, "listing changed orders: not the object of Wallet Orders §1.2 (d)") }
            self.tag = tag
            return identifiers
        default: throw Self.refusal(response.status, "listing changed orders")
        }
    }

    /// Requests all orders that the device is registered for, without changing its tag.
    func listedOrders() async throws(ToolError) -> [String] {
        let tag = self.tag
        defer { self.tag = tag }

        self.tag = nil
        return try await self.changedOrders()
    }

    private static func refusal(_ status: Int, _ action: String) -> ToolError {
        let code: ToolError.Code = status == 503 ? .unavailable : status == 401 ? .unauthorized : .check
        return ToolError(code, "\(action): status \(status)")
    }

    /// Reacts to a push as a device does: lists, then fetches the listed orders that it has.
    /// - Returns: these orders, each with its new version if it has one.
    func react() async throws(ToolError) -> [(order: String, report: PackageReport?)] {
        let before = self.tag
        do throws(ToolError) {
            var listed: [(order: String, report: PackageReport?)] = []
            for identifier in try await self.changedOrders() where self.orders[identifier] != nil {
                switch try await self.fetch(identifier) {
                case .version(let report): listed.append((identifier, report))
                case .notModified, .unauthorized: listed.append((identifier, nil))
                case .unavailable: throw ToolError(.unavailable, "fetching \(identifier): status 503")
                }
            }
            return listed
        } catch {
            // Orders that were listed but not fetched must be listed again.
            self.tag = before
            throw error
        }
    }

    private nonisolated var registrationURL: String {
        "\(self.base)/v1/devices/\(Self.escaped(self.deviceIdentifier))/registrations/\(self.orderType)"
    }

    /// Percent-encodes everything but unreserved characters. Source: RFC 3986 §2.1, §2.3
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for byte in text.utf8 {
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII,
                scalar.properties.isAlphabetic || scalar.properties.numericType != nil
                    || "-._~".unicodeScalars.contains(scalar)
            {
                escaped.unicodeScalars.append(scalar)
            } else {
                escaped += "%" + hex([byte]).uppercased()
            }
        }
        return escaped
    }
}
