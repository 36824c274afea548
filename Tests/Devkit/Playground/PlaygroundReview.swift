import Model

/// The verdict on a text of an editor: the problems with their places.
struct PlaygroundReview: Sendable {
    struct Problem: Hashable, Sendable {
        let path: String
        let place: JSONPlaces.Place
        let message: String
        /// `syntax`, `schema`, `wallet` for a rule that the JSON Schema does not have, or `advice`, which leaves the text
        /// valid.
        let rule: String

        init(path: String, place: JSONPlaces.Place, message: String, rule: String) {
            self.path = path
            self.place = place
            self.message = message
            self.rule = rule
        }

        init(_ violation: Violation, in places: JSONPlaces, rule: String? = nil) {
            self.init(
                path: violation.path, place: places.place(of: violation.path), message: violation.message,
                rule: rule ?? (violation.isBeyondSchema ? "wallet" : "schema"))
        }

        var json: JSON {
            [
                "path": .string(self.path), "line": .integer(Int64(self.place.line)),
                "column": .integer(Int64(self.place.column)), "message": .string(self.message),
                "rule": .string(self.rule),
            ]
        }
    }

    let value: JSON?
    let problems: [Problem]
    var advice: [Problem] = []

    var json: JSON {
        [
            "valid": .bool(self.problems.isEmpty),
            "problems": .array((self.problems + self.advice).map(\.json)),
        ]
    }

    /// Reviews any JSON object.
    init(object text: [UInt8]) {
        do {
            let value = try JSON(parsing: text)
            self.value = value
            guard value.object == nil else {
                self.problems = []
                return
            }
            self.problems = [
                Problem(
                    path: "$", place: JSONPlaces(text).place(of: "$"),
                    message: "must be an object, it is \(value.kind)",
                    rule: "schema")
            ]
        } catch {
            self.value = nil
            self.problems = [
                Problem(
                    path: "$", place: JSONPlaces.place(of: error.offset, in: text), message: error.message,
                    rule: "syntax")
            ]
        }
    }

    /// Reviews an order document by the packager's own rules.
    init(order text: [UInt8], of key: OrderKey, rules: BrandRules, nowEpochSeconds: Int64) {
        self.init(text) { members in
            // Any token will do, since only the document is reviewed.
            OrderFold(rules: rules) { _ in AuthenticationToken(derived: String(repeating: "0", count: 32)) }
                .violations(in: OrderDocument(members: members), of: key, nowEpochSeconds: nowEpochSeconds)
        }
    }

    /// Reviews a payment request by the rules of the checkout role.
    init(paymentRequest text: [UInt8]) {
        self.init(text) { PaymentRequestValidator.violations(in: .object($0), allowUnknownMembers: true) }
        guard let members = self.value?.object else { return }
        let places = JSONPlaces(text)
        let advice =
            PaymentRequestValidator.questionableMembers(in: members)
            + PaymentRequestValidator.unknownNetworks(in: members)
        self.advice = advice.prefix(20).map { Problem($0, in: places, rule: "advice") }
    }

    private init(_ text: [UInt8], violations: (JSONObject) -> [Violation]) {
        let review = PlaygroundReview(object: text)
        self.value = review.value
        guard let members = review.value?.object else {
            self.problems = review.problems
            return
        }
        let places = JSONPlaces(text)
        self.problems = violations(members).prefix(100).map { Problem($0, in: places) }
    }
}
