/// One pass over an order, with the path to the current value.
struct ValidationWalk {
    private(set) var violations: [Violation] = []
    private let root: JSONObject
    /// The indices of members and elements on the path; only a violation needs their names.
    private var steps: [Int] = []
    private let allowUnknownMembers: Bool
    private let files: OrderValidator.Files
    /// The currency of the order: that of its total, otherwise the first one that occurs.
    private var currency: String?
    /// The most violations that are kept.
    private let limit: Int
    /// True if an amount is in another currency.
    private(set) var isMixedInCurrency = false
    /// True while rules are checked that the JSON Schema does not have.
    var isBeyondSchema = false

    /// The depth to which an order may nest if unknown members are accepted: well below the parser's limit, so that
    /// records that contain an order can be read back.
    private static let depthLimit = 24

    init(
        of root: JSONObject, allowUnknownMembers: Bool, files: OrderValidator.Files, currency: String?,
        limit: Int = OrderValidator.limit
    ) {
        self.root = root
        self.allowUnknownMembers = allowUnknownMembers
        self.files = files
        self.currency = currency
        self.limit = limit
        self.steps.reserveCapacity(8)
    }

    /// Adds a violation at the current value, or at a member of it.
    ///
    /// - Parameter fault: the member that is at fault, if it is another one.
    mutating func report(_ message: String, at member: String? = nil, fault: String? = nil) {
        guard self.violations.count < self.limit else { return }
        var path = "$"
        var place: [Violation.Step] = []
        var value = JSON.object(self.root)
        for step in self.steps {
            switch value {
            case .object(let object):
                path += Self.pathPart(object.members[step].name)
                place.append(.member(object.members[step].name))
                value = object.members[step].value
            case .array(let elements):
                path += "[\(step)]"
                place.append(.element(step))
                value = elements[step]
            // Steps are taken in arrays and objects only.
            case .null, .bool, .number, .string: break
            }
        }
        if let member { path += Self.pathPart(member) }
        if let name = fault ?? member { place.append(.member(name)) }
        self.violations.append(
            Violation(path: path, message: message, place: place, isBeyondSchema: self.isBeyondSchema))
    }

    /// Adds a violation at a path from the root.
    mutating func report(_ message: String, path: String, place: Violation.Step...) {
        guard self.violations.count < self.limit else { return }
        self.violations.append(
            Violation(path: path, message: message, place: place, isBeyondSchema: self.isBeyondSchema))
    }

    /// Checks an object against its schema: both are sorted by name, so one pass over both suffices.
    mutating func object(_ object: JSONObject, _ schema: ObjectSchema) {
        // Spans lend their elements, whereas iterating over an array would take a reference to each of them.
        let members = object.members.span
        let schemas = schema.members
        let known = schemas.span
        var next = 0
        for index in members.indices {
            var isKnown = false
            while next < known.count {
                let order = members[index].key.order(to: known[next].key)
                isKnown = order == 0
                if order <= 0 { break }
                if known[next].isRequired { self.report("is missing", at: known[next].name) }
                next += 1
            }
            guard isKnown else {
                self.unknown(members[index], schema)
                continue
            }
            self.steps.append(index)
            self.value(members[index].value, known[next].shape)
            self.steps.removeLast()
            next += 1
        }
        while next < known.count {
            if known[next].isRequired { self.report("is missing", at: known[next].name) }
            next += 1
        }
        for need in schema.needs where object[need.member] != nil && object[need.needed] == nil {
            self.report("is missing, \(need.member) needs it", at: need.needed, fault: need.member)
        }
    }

    private mutating func value(_ value: JSON, _ shape: Shape) {
        // Not one switch over both: that would copy both.
        switch shape {
        case .text(let format):
            guard case .string(let text) = value else {
                return self.wrongKind(value, format.expectation(files: self.files))
            }
            guard !format.accepts(text, files: self.files) else { return }
            let expected = format.expectation(files: self.files)
            let found = format.isShown ? ", it is \"\(Self.shown(text, to: 60))\"" : ""
            let hint = format.mended(text, files: self.files).map { "\(Violation.hint)\(Self.shown($0))" } ?? ""
            self.report("must be \(expected)\(found)\(hint)")
        case .choice(let choices):
            guard case .string(let text) = value else { return self.wrongKind(value, Self.list(choices)) }
            guard !choices.contains(text) else { return }
            self.report("must be \(Self.list(choices)), it is \"\(clipped(text))\"")
        case .number(let range):
            guard case .number(let number) = value else { return self.wrongKind(value, "a number") }
            guard !range.contains(number.double) else { return }
            self.report("must be a number \(Self.bounds(range)), it is \(clipped(number.text))")
        case .wholeNumber(let range):
            guard case .number(let number) = value else { return self.wrongKind(value, "a whole number") }
            let double = number.double
            guard !range.contains(double) || double != double.rounded() else { return }
            self.report("must be a whole number \(Self.bounds(range)), it is \(clipped(number.text))")
        case .boolean:
            if case .bool = value { return }
            self.wrongKind(value, "true or false")
        case .object(let schema):
            guard case .object(let object) = value else {
                return self.wrongKind(value, "\(schema.title) (an object)")
            }
            self.object(object, schema)
        case .array(let shape):
            guard case .array(let array) = value else { return self.wrongKind(value, "an array") }
            let elements = array.span
            for index in elements.indices where self.violations.count < self.limit {
                self.steps.append(index)
                self.value(elements[index], shape)
                self.steps.removeLast()
            }
        case .amount:
            guard case .object(let object) = value else { return self.wrongKind(value, "an amount (an object)") }
            self.object(object, OrderSchema.currencyAmount)
            self.checkCurrency(of: object)
        case .fulfillment:
            guard case .object(let object) = value else { return self.wrongKind(value, "a fulfillment (an object)") }
            self.fulfillment(object)
        }
    }

    /// Returns a text; a link up to its query, which may have a secret.
    private static func shown(_ text: String, to length: Int = 400) -> String {
        guard text.contains("://"), let end = text.utf8.firstIndex(where: { "?#".utf8.contains($0) }) else {
            return clipped(text, to: length)
        }
        return "\(clipped(String(text[..<end]), to: length))\(Character(Unicode.Scalar(text.utf8[end])))…"
    }

    private mutating func wrongKind(_ value: JSON, _ expected: String) {
        self.report("must be \(expected), it is \(value.kind)")
    }

    /// Source: Wallet Orders §3.12, §3.13
    private mutating func fulfillment(_ object: JSONObject) {
        switch object["fulfillmentType"] {
        case "shipping"?: self.object(object, OrderSchema.shipping)
        case "pickup"?: self.object(object, OrderSchema.pickup)
        case nil:
            self.report("is missing", at: "fulfillmentType")
            // Whichever type it gets, the rest must be right for it.
            let before = self.violations.count
            let tries = [OrderSchema.shipping, OrderSchema.pickup].map { schema in
                var walk = self
                walk.object(object, schema)
                return walk.violations[before...].filter { !$0.isMissing }
            }
            if tries.allSatisfy({ !$0.isEmpty }) {
                self.violations += tries.min { $0.count < $1.count } ?? []
            }
        case let value?:
            let found = value.string.map { "\"\(clipped($0))\"" } ?? value.kind
            self.report("must be shipping or pickup, it is \(found)", at: "fulfillmentType")
        }
    }

    /// Checks our own rule that currencies agree. Source: Wallet Orders §3.20
    private mutating func checkCurrency(of amount: JSONObject) {
        guard case .string(let found)? = amount["currency"] else { return }
        guard let currency else {
            self.currency = found
            return
        }
        if found != currency {
            self.isMixedInCurrency = true
            self.isBeyondSchema = true
            self.report(
                "is \"\(clipped(found))\", the order's other amounts are in \(clipped(currency))", at: "currency")
            self.isBeyondSchema = false
        }
    }

    private mutating func unknown(_ member: JSONObject.Member, _ schema: ObjectSchema) {
        guard self.allowUnknownMembers else {
            let lowercased = member.name.lowercased()
            let meant = schema.members.first { $0.name.lowercased() == lowercased }
            self.report(
                "is not a member of \(schema.title)\(meant.map { ", is \($0.name) meant?" } ?? "")", at: member.name)
            return
        }
        if member.value.isDeeper(than: Self.depthLimit - self.steps.count) {
            self.report("nests too deep", at: member.name)
        }
    }

    private static func pathPart(_ name: String) -> String {
        let isPlain =
            !name.isEmpty
            && name.utf8.allSatisfy { ($0 | 0x20) &- UInt8(ascii: "a") < 26 || $0 &- UInt8(ascii: "0") < 10 }
        return isPlain ? ".\(clipped(name))" : "[\(JSON.string(clipped(name)).text)]"
    }

    private static func list(_ choices: [String]) -> String {
        guard let last = choices.last, choices.count > 1 else { return "\"\(choices.first ?? "")\"" }
        return "\(choices.dropLast().joined(separator: ", ")) or \(last)"
    }

    private static func bounds(_ range: ClosedRange<Double>) -> String {
        let low = range.lowerBound == -Double.greatestFiniteMagnitude ? nil : Int(exactly: range.lowerBound)
        let high = range.upperBound == Double.greatestFiniteMagnitude ? nil : Int(exactly: range.upperBound)
        return switch (low, high) {
        case (let low?, let high?): "from \(low) to \(high)"
        case (let low?, nil): "of at least \(low)"
        case (nil, let high?): "of at most \(high)"
        case (nil, nil): "that a computer can hold"
        }
    }
}

extension ValidationWalk {
    /// Checks the rules between members, which a schema of one member cannot express.
    ///
    /// Each rule looks only at values of the right kind; the others were reported before.
    /// Source: Wallet Orders §3.1, §3.20
    mutating func checkRules(of order: JSONObject, nowEpochSeconds: Int64?) {
        self.isBeyondSchema = true
        defer { self.isBeyondSchema = false }

        let created = order["createdAt"]?.string.flatMap { RFC3339.instant($0) }
        let updated = order["updatedAt"]?.string.flatMap { RFC3339.instant($0) }
        if let created, let updated, updated < created {
            self.report("must not be before createdAt", path: "$.updatedAt", place: .member("createdAt"))
        }
        if let created, let now = nowEpochSeconds, created.epochSeconds > now + OrderFold.futureLimitSeconds {
            self.report("is more than 24 hours in the future", path: "$.createdAt", place: .member("createdAt"))
        }
        if let payment = order["payment"]?.object {
            if payment["status"] == nil, order["schemaVersion"]?.number?.double == 1 {
                // Wallet refuses such an order. Source: Wallet Orders §3.1
                self.report(
                    "is missing, schemaVersion 1 needs it", path: "$.payment.status",
                    place: .member("payment"), .member("status"))
            }
            self.checkTotal(of: payment)
        }
        self.checkUnique("fulfillmentIdentifier", in: order["fulfillments"]?.array ?? [], "$.fulfillments")
        let returns = order["returns"]?.array ?? []
        self.checkUnique("returnIdentifier", in: returns, "$.returns")
        for (index, element) in returns.enumerated() {
            guard let initiated = element.object?["initiatedAt"]?.string.flatMap({ RFC3339.instant($0) }),
                let dropOff = element.object?["dropOffBy"]?.string.flatMap({ RFC3339.instant($0) })
            else { continue }
            if dropOff < initiated {
                self.report(
                    "must not be before initiatedAt", path: "$.returns[\(index)].dropOffBy",
                    place: .member("returns"), .element(index), .member("dropOffBy"))
            }
        }
    }

    /// Checks our own rule that the summary items add up to the total. An empty list says nothing about it.
    private mutating func checkTotal(of payment: JSONObject) {
        guard let total = payment["total"]?.object?["amount"]?.string, isDecimal(total.utf8.span),
            let items = payment["summaryItems"]?.array, !items.isEmpty
        else { return }
        var sum = DecimalSum()
        for item in items {
            guard let amount = item.object?["value"]?.object?["amount"]?.string, isDecimal(amount.utf8.span) else {
                return
            }
            sum.add(amount)
        }
        if !sum.equals(total) {
            self.report(
                "must be what the summaryItems add up to: \(clipped(sum.text)), it is \"\(clipped(total))\"",
                path: "$.payment.total.amount", place: .member("payment"), .member("total"))
        }
    }

    private mutating func checkUnique(_ member: String, in elements: [JSON], _ path: String) {
        guard elements.count > 1 else { return }
        var seen: Set<ByteText> = []
        seen.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            guard case .string(let identifier)? = element.object?[member] else { continue }
            if !seen.insert(ByteText(identifier)).inserted {
                self.report(
                    "is \"\(clipped(identifier))\", which another one has already", path: "\(path)[\(index)].\(member)")
            }
        }
    }
}

/// One error in an order.
public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// `$.payment.total.amount`
    public let path: String
    /// The rest of the sentence: `must be a string, it is a number`.
    public let message: String
    /// The value at fault as steps from the root; empty where a part of an order cannot be at fault alone.
    let place: [Step]
    /// True for a rule that the JSON Schema does not have.
    public let isBeyondSchema: Bool

    /// A step from a value to one inside it.
    enum Step: Hashable, Sendable {
        case member(String)
        case element(Int)
    }

    public init(path: String, message: String) { self.init(path: path, message: message, place: []) }

    init(path: String, message: String, place: [Step], isBeyondSchema: Bool = false) {
        self.path = path
        self.message = message
        self.place = place
        self.isBeyondSchema = isBeyondSchema
    }

    /// True if a member is missing, which may still arrive, and no value is wrong.
    var isMissing: Bool { self.message.hasPrefix("is missing") }

    /// True for a member that the schema does not know.
    var isUnknownMember: Bool { self.message.hasPrefix("is not a member of ") }

    /// The words between what is expected and the text to write instead.
    static let hint = "; write "

    /// The whole sentence without the value at fault, for a log: the value may be about a person.
    public var withoutValue: String {
        let end = [", it is \"", Self.hint].compactMap { self.message.firstRange(of: $0)?.lowerBound }.min()
        return "\(self.path) \(self.message[..<(end ?? self.message.endIndex)])"
    }

    /// The whole sentence.
    public var description: String { "\(self.path) \(self.message)" }
}

/// The exact sum of decimal numbers of any length, written as `-?digits[.digits]`.
///
/// Each decimal place has its own column, which is carried over only when the sum is needed. A column cannot
/// overflow: a text of at most a megabyte has too few digits for that.
struct DecimalSum {
    /// The columns from the units upwards.
    private var whole: [Int] = []
    /// The columns from the tenths downwards.
    private var fraction: [Int] = []

    /// - Parameter text: already checked with `isDecimal`.
    mutating func add(_ text: String) { self.add(text, sign: 1) }

    /// Returns true if the sum is this number.
    func equals(_ text: String) -> Bool {
        var difference = self
        difference.add(text, sign: -1)
        return difference.digits() == nil
    }

    /// The sum in the shortest form that keeps the decimal places of the numbers added.
    var text: String {
        guard let digits = self.digits() else { return "0" }
        var text = digits.isNegative ? "-" : ""
        for digit in digits.whole.reversed().drop(while: { $0 == 0 }) { text += String(digit) }
        if text.isEmpty || text == "-" { text += "0" }
        if !digits.fraction.isEmpty { text += "." }
        for digit in digits.fraction { text += String(digit) }
        return text
    }

    private mutating func add(_ text: String, sign: Int) {
        let bytes = text.utf8.span
        var start = 0
        var sign = sign
        if bytes.count > 0, bytes[0] == UInt8(ascii: "-") {
            start = 1
            sign = -sign
        }
        var point = start
        while point < bytes.count, bytes[point] != UInt8(ascii: ".") { point += 1 }
        while self.whole.count < point - start { self.whole.append(0) }
        while self.fraction.count < bytes.count - point - 1 { self.fraction.append(0) }
        for index in start..<point { self.whole[point - 1 - index] += sign * Int(bytes[index] & 0xF) }
        for index in min(point + 1, bytes.count)..<bytes.count {
            self.fraction[index - point - 1] += sign * Int(bytes[index] & 0xF)
        }
    }

    /// - Returns: one digit for each place, nil for zero.
    private func digits() -> (isNegative: Bool, whole: [Int], fraction: [Int])? {
        for sign in [1, -1] {
            var whole = self.whole
            var fraction = self.fraction
            var carry = 0
            func carryOver(_ column: inout Int) {
                let value = column * sign + carry
                // Floor, so that a digit is never negative.
                carry = value >= 0 ? value / 10 : -((9 - value) / 10)
                column = value - carry * 10
            }
            for index in fraction.indices.reversed() { carryOver(&fraction[index]) }
            for index in whole.indices { carryOver(&whole[index]) }
            while carry > 0 {
                whole.append(carry % 10)
                carry /= 10
            }
            if carry < 0 { continue }
            let isZero = whole.allSatisfy { $0 == 0 } && fraction.allSatisfy { $0 == 0 }
            return isZero ? nil : (sign < 0, whole, fraction)
        }
        return nil
    }
}
