import Model

/// The verdict on a text of an editor: the problems with their places.
struct PlaygroundReview: Sendable {
    struct Problem: Hashable, Sendable {
        let path: String
        let place: JSONPlaces.Place
        let message: String
        /// `syntax`, `schema` or `wallet`.
        let rule: String

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

    var json: JSON {
        ["valid": .bool(self.problems.isEmpty), "problems": .array(self.problems.map(\.json))]
    }

    /// Any JSON object.
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

    /// An order document, by the packager's own rules.
    init(order text: [UInt8], of key: OrderKey, rules: BrandRules, nowEpochSeconds: Int64) {
        let review = PlaygroundReview(object: text)
        self.value = review.value
        guard let value = review.value, let members = value.object, review.problems.isEmpty else {
            self.problems = review.problems
            return
        }
        let violations = Self.violations(in: members, of: key, rules: rules, nowEpochSeconds: nowEpochSeconds)
        let places = JSONPlaces(text)
        self.problems = violations.prefix(100).map { violation in
            Problem(
                path: violation.path, place: places.place(of: violation.path), message: violation.message,
                rule: "wallet")
        }
    }

    private static func violations(
        in members: JSONObject, of key: OrderKey, rules: BrandRules, nowEpochSeconds: Int64
    ) -> [Violation] {
        var order = members
        order["schemaVersion"] = order["schemaVersion"] ?? 1
        order["orderType"] = "ecommerce"
        order["orderTypeIdentifier"] = .string(key.orderType.rawValue)
        order["orderIdentifier"] = .string(key.order.rawValue)
        order["webServiceURL"] = .string(rules.webServiceURL)
        order["authenticationToken"] = "0123456789abcdef"
        order["updatedAt"] = .string(RFC3339.format(epochSeconds: nowEpochSeconds))
        return OrderValidator.violations(
            in: .object(order), allowUnknownMembers: false, nowEpochSeconds: nowEpochSeconds)
    }
}
