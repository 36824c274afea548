/// Checks payment requests of Apple Pay on the Web as strictly as `payment-request.schema.json`, and rules that a
/// schema cannot express.
///
/// Source: Apple Pay on the Web, `ApplePayPaymentRequest`
public enum PaymentRequestValidator {
    /// The first version of Apple Pay on the Web whose total may be zero.
    static let zeroTotalVersion = 4
    /// The members of which a request may have at most one.
    static let exclusive = [
        "recurringPaymentRequest", "automaticReloadPaymentRequest", "deferredPaymentRequest", "multiTokenContexts",
    ]

    /// - Parameters:
    ///   - allowUnknownMembers: accepts unknown members, which browsers ignore. Apple may have added them.
    ///   - version: the version of Apple Pay on the Web that the request is for.
    /// - Returns: the first 20 violations; none for a valid request.
    public static func violations(
        in request: JSON, allowUnknownMembers: Bool = false, version: Int = 14
    ) -> [Violation] {
        guard case .object(let object) = request else {
            return [Violation(path: "$", message: "must be an object, it is \(request.kind)")]
        }
        var walk = ValidationWalk(
            of: object, allowUnknownMembers: allowUnknownMembers, files: .names, currency: nil)
        walk.object(object, PaymentRequestSchema.request)
        walk.checkPaymentRules(of: object, version: version)
        return walk.violations
    }

    /// Returns the members of a request that this release does not know, or that are deprecated: advice on a request
    /// that is valid otherwise. At most 20 unknown ones.
    public static func questionableMembers(in request: JSONObject) -> [Violation] {
        let deprecated = PaymentRequestSchema.deprecated.filter { request[$0] != nil }
        return Self.violations(in: .object(request)).filter(\.isUnknownMember)
            + deprecated.map { Violation(path: "$.\($0)", message: "is deprecated: leave it out") }
    }

    /// Returns the networks of a request that this release does not know. Apple may have added them, or they are typing
    /// errors: a browser that does not know them refuses the request.
    public static func unknownNetworks(in request: JSONObject) -> [Violation] {
        (request["supportedNetworks"]?.array ?? []).enumerated().compactMap { index, network in
            guard let name = network.string, TextFormat.network.accepts(name, files: .names),
                !PaymentRequestSchema.networks.contains(name)
            else { return nil }
            let known = PaymentRequestSchema.networks.first { $0.lowercased() == name.lowercased() }
            let meant = known.map { ": did you mean \"\($0)\"?" } ?? ": check its spelling"
            return Violation(
                path: "$.supportedNetworks[\(index)]", message: "is a network that Waybill does not know\(meant)")
        }
    }

    /// Checks the parts of a request that a page is given while the sheet is open: `newTotal`, and `newLineItems` and
    /// `newShippingMethods` if present.
    public static func violations(inUpdate update: JSONObject) -> [Violation] {
        var walk = ValidationWalk(of: update, allowUnknownMembers: true, files: .names, currency: nil)
        walk.object(update, Self.update)
        walk.checkItems(update["newLineItems"], path: "$.newLineItems")
        walk.checkMethods(update["newShippingMethods"], path: "$.newShippingMethods")
        return walk.violations
    }

    private static let update = ObjectSchema(
        "an update",
        .optional("newLineItems", .array(of: .object(PaymentRequestSchema.lineItem))),
        .optional("newShippingMethods", .array(of: .object(PaymentRequestSchema.shippingMethod))),
        .required("newTotal", .object(PaymentRequestSchema.total)))
}

extension ValidationWalk {
    /// Checks the rules that concern more than one value.
    fileprivate mutating func checkPaymentRules(of request: JSONObject, version: Int) {
        for name in ["supportedNetworks", "merchantCapabilities"] {
            if request[name]?.array?.isEmpty == true { self.report("must name one at least", path: "$.\(name)") }
        }
        let lists = [
            "supportedNetworks", "merchantCapabilities", "requiredBillingContactFields",
            "requiredShippingContactFields",
        ]
        for name in lists { self.checkDistinct(request[name], path: "$.\(name)") }
        self.checkDistinct(
            request["disbursementRequest"]?.object?["requiredRecipientContactFields"],
            path: "$.disbursementRequest.requiredRecipientContactFields")
        if let capabilities = request["merchantCapabilities"]?.array, !capabilities.isEmpty,
            !capabilities.contains("supports3DS")
        {
            self.report("must have supports3DS", path: "$.merchantCapabilities")
        }
        if version < PaymentRequestValidator.zeroTotalVersion,
            request["total"]?.object?["amount"]?.string?.allSatisfy({ "0.".contains($0) }) == true
        {
            self.report(
                "must be above zero before version \(PaymentRequestValidator.zeroTotalVersion)", path: "$.total.amount")
        }
        self.checkItems(request["lineItems"], path: "$.lineItems")
        self.checkMethods(request["shippingMethods"], path: "$.shippingMethods")
        let present = PaymentRequestValidator.exclusive.filter { request[$0] != nil }
        for name in present.dropFirst() { self.report("does not go together with \(present[0])", path: "$.\(name)") }
        self.checkBilling(
            request["recurringPaymentRequest"], "recurringPaymentRequest", "regularBilling", "recurring", needs: nil)
        self.checkItem(
            request["recurringPaymentRequest"]?.object?["trialBilling"],
            path: "$.recurringPaymentRequest.trialBilling")
        self.checkBilling(
            request["automaticReloadPaymentRequest"], "automaticReloadPaymentRequest", "automaticReloadBilling",
            "automaticReload", needs: "automaticReloadPaymentThresholdAmount")
        self.checkBilling(
            request["deferredPaymentRequest"], "deferredPaymentRequest", "deferredBilling", "deferred",
            needs: "deferredPaymentDate")
    }

    private mutating func checkDistinct(_ list: JSON?, path: String) {
        guard let values = list?.array, Set(values).count < values.count else { return }
        self.report("must name each once", path: path)
    }

    fileprivate mutating func checkItems(_ items: JSON?, path: String) {
        for (index, item) in (items?.array ?? []).enumerated() { self.checkItem(item, path: "\(path)[\(index)]") }
    }

    /// Checks that an item has an amount, which only a pending item may lack.
    private mutating func checkItem(_ item: JSON?, path: String) {
        guard let item = item?.object, item["amount"] == nil, item["type"]?.string != "pending" else { return }
        self.report("is missing", path: "\(path).amount")
    }

    fileprivate mutating func checkMethods(_ methods: JSON?, path: String) {
        self.isBeyondSchema = true
        defer { self.isBeyondSchema = false }

        var seen: Set<String> = []
        for (index, method) in (methods?.array ?? []).enumerated() {
            guard let identifier = method.object?["identifier"]?.string, !seen.insert(identifier).inserted else {
                continue
            }
            self.report("is that of another method already", path: "\(path)[\(index)].identifier")
        }
    }

    private mutating func checkBilling(
        _ request: JSON?, _ name: String, _ member: String, _ timing: String, needs: String?
    ) {
        guard let billing = request?.object?[member]?.object else { return }
        let path = "$.\(name).\(member)"
        self.checkItem(.object(billing), path: path)
        if billing["paymentTiming"]?.string != timing {
            self.report("must be \"\(timing)\"", path: "\(path).paymentTiming")
        }
        if let needs, billing[needs] == nil { self.report("is missing", path: "\(path).\(needs)") }
    }
}
