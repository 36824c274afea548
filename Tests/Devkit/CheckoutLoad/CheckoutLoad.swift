import Foundation
import Model
import NIOHTTP1
import Synchronization

/// Customers of a shop. Each arrives at a scheduled time, regardless of how long the others take.
struct CheckoutLoad: Sendable {
    /// The outcome for one customer: the measured time, and a word for the result.
    struct Outcome: Sendable {
        let duration: Duration
        let end: String
    }

    let checkout: PlaygroundCheckout
    /// The URL of the gateway that devices fetch from.
    let gateway: String
    let origins: [String]
    let http: HTTPClient

    /// The outcomes of a load, and the most memory that the checkout role had meanwhile.
    struct Outcomes: Sendable {
        var all: [Outcome] = []
        var megabytes: Int64 = 0

        static func += (left: inout Outcomes, right: Outcomes) {
            left.all += right.all
            left.megabytes = max(left.megabytes, right.megabytes)
        }

        /// Percentiles in microseconds, the counts of each result, and the peak memory.
        var report: JSON {
            let sorted = self.all.map(\.duration.microseconds).sorted()
            var ends: [String: Int64] = [:]
            for outcome in self.all { ends[outcome.end, default: 0] += 1 }
            func percentile(_ part: Double) -> JSON {
                .integer(sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))])
            }
            return [
                "p50": percentile(0.5), "p99": percentile(0.99), "most": .integer(sorted.last ?? 0),
                "ends": .object(JSONObject(ends.sorted { $0.key < $1.key }.map { ($0.key, .integer($0.value)) })),
                "megabytes": .integer(self.megabytes),
            ]
        }
    }

    /// Runs `count` customers at a rate, fewer if the task is cancelled.
    func run(
        _ count: Int, rate: Int, _ customer: @escaping @Sendable (Int) async throws -> Outcome
    ) async -> Outcomes {
        let megabytes = Mutex<Int64>(0)
        async let _: Void = {
            repeat {
                megabytes.withLock { $0 = max($0, self.residentMegabytes) }
            } while (try? await Task.sleep(for: .milliseconds(250))) != nil
        }()
        let outcomes = await withTaskGroup(of: Outcome.self) { group in
            let start = ContinuousClock.now
            for number in 0..<count {
                guard (try? await Task.sleep(until: start + .seconds(1) * number / rate)) != nil else { break }
                // A customer that came waits for its answer.
                group.addTask { await Task { await Self.outcome(number, customer) }.value }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        return Outcomes(all: outcomes, megabytes: megabytes.withLock { $0 })
    }

    private static func outcome(
        _ number: Int, _ customer: @Sendable (Int) async throws -> Outcome
    ) async -> Outcome {
        let start = ContinuousClock.now
        do {
            return try await customer(number)
        } catch {
            return Outcome(duration: .now - start, end: "\(error)")
        }
    }

    /// Resident memory of the checkout role, in MB.
    var residentMegabytes: Int64 { Int64(self.checkout.residentBytes >> 20) }

    // MARK: The customers

    /// Requests a merchant session, as a page does when the payment sheet opens.
    func session(_ number: Int) async throws -> Outcome {
        let start = ContinuousClock.now
        let response = try await self.ask(
            "/applepay/validate", number,
            ["validationURL": "https://apple-pay-gateway-cert.apple.com/paymentservices/paymentSession"])
        return Outcome(duration: .now - start, end: "\(response.status)")
    }

    /// Reads a basket, as a page does whenever that changes.
    func basket(_ number: Int) async throws -> Outcome {
        try await self.basket(origin: self.origin(number), address: Self.address(number))
    }

    func basket(origin: String, address: String) async throws -> Outcome {
        let start = ContinuousClock.now
        let response = try await self.ask("/applepay/basket/basket", origin: origin, address: address)
        return Outcome(duration: .now - start, end: "\(response.status)")
    }

    /// Sends an authorised payment, then the device's first fetch if `isFetched`; the last of them is measured.
    /// - Parameter name: distinguishes runs; together with the number it forms the transaction's identifier.
    func payment(_ name: String, _ number: Int, isFetched: Bool) async throws -> Outcome {
        // The shop names the order after the first twelve characters of the transaction's identifier.
        let digits = String(number)
        let transaction = name.prefix(5) + "-" + String(repeating: "0", count: 6 - digits.count) + digits
        let paid = ContinuousClock.now
        let response = try await self.ask(
            "/applepay/payment", number,
            [
                "basketIdentifier": "basket",
                "payment": [
                    "token": [
                        "transactionIdentifier": .string(String(transaction)),
                        "paymentData": ["data": .string(String(repeating: "A", count: 3000)), "version": "EC_v1"],
                    ],
                    "shippingContact": ["givenName": "Ada", "postalCode": "EC4M 7RF"],
                ],
            ])
        let answer = try? JSON(parsing: response.body).object
        guard response.status == 200, let details = answer?["orderDetails"]?.object,
            let type = details["orderTypeIdentifier"]?.string, let order = details["orderIdentifier"]?.string,
            let token = details["authenticationToken"]?.string
        else { return Outcome(duration: .now - paid, end: "payment \(response.status)") }
        guard isFetched else { return Outcome(duration: .now - paid, end: "200") }
        let completed = ContinuousClock.now
        let package = try await self.http.send(
            HTTPRequest(
                url: "\(self.gateway)/v1/orders/\(type)/\(order)",
                headers: [("authorization", "AppleOrder \(token)")]))
        let isPackage = package.header("content-type") == "application/vnd.apple.finance.order"
        return Outcome(
            duration: .now - completed, end: package.status == 200 && !isPackage ? "no package" : "\(package.status)")
    }

    private func origin(_ number: Int) -> String { self.origins[number % self.origins.count] }

    /// Customers that follow each other are in different networks.
    private static func address(_ number: Int) -> String { "198.18.\(number & 0xFF).\(number >> 8 & 0xFF)" }

    /// Sends a request to the checkout role, with an origin and a client address chosen by the customer's number.
    private func ask(_ path: String, _ number: Int, _ body: JSON) async throws -> HTTPResponse {
        try await self.ask(path, origin: self.origin(number), address: Self.address(number), body)
    }

    private func ask(
        _ path: String, origin: String, address: String, _ body: JSON? = nil
    ) async throws -> HTTPResponse {
        var request = HTTPRequest(method: body == nil ? .GET : .POST, url: self.checkout.url + path)
        request.headers = [("origin", origin), ("x-forwarded-for", address)]
        if let body {
            request.headers.append(("content-type", "application/json"))
            request.body = body.serialized
        }
        return try await self.http.send(request, within: .seconds(60))
    }
}
