/// A payment request as a table: the same as `payment-request.schema.json`, with which the tests compare it.
///
/// Source: Apple Pay on the Web, `ApplePayPaymentRequest` and what it consists of
enum PaymentRequestSchema {
    static let request = ObjectSchema(
        "a payment request",
        .optional(
            "applePayLaterAvailability",
            .choice(["available", "unavailableItemIneligible", "unavailableRecurringTransaction"])),
        .optional("applicationData", .text(.base64)),
        .optional("automaticReloadPaymentRequest", .object(Self.automaticReload)),
        .optional("billingContact", .object(Self.contact)),
        .required("countryCode", .text(.knownCountry)),
        .optional("couponCode", .text(.any)),
        .required("currencyCode", .text(.knownCurrency)),
        .optional("deferredPaymentRequest", .object(Self.deferred)),
        .optional("disbursementRequest", .object(Self.disbursement)),
        .optional("features", .array(of: .text(.filled))),
        .optional("lineItems", .array(of: .object(Self.lineItem))),
        .required("merchantCapabilities", .array(of: .choice(Self.capabilities))),
        .optional("merchantCategoryCode", .text(.categoryCode)),
        .optional("multiTokenContexts", .array(of: .object(Self.tokenContext))),
        .optional("recurringPaymentRequest", .object(Self.recurring)),
        .optional("requiredBillingContactFields", .array(of: .choice(Self.contactFields))),
        .optional("requiredShippingContactFields", .array(of: .choice(Self.contactFields))),
        .optional("shippingContact", .object(Self.contact)),
        .optional("shippingContactEditingMode", .choice(["available", "enabled", "storePickup"])),
        .optional("shippingMethods", .array(of: .object(Self.shippingMethod))),
        .optional("shippingType", .choice(["shipping", "delivery", "storePickup", "servicePickup"])),
        .optional("supportedCountries", .array(of: .text(.knownCountry))),
        .required("supportedNetworks", .array(of: .text(.network))),
        .optional("supportsCouponCode", .boolean),
        .required("total", .object(Self.total)))

    static let lineItem = Self.item("a line item", label: .filled, amount: .optional("amount", .text(.signedAmount)))
    static let total = Self.item("a total", label: .filled, amount: .required("amount", .text(.totalAmount)))

    static let shippingMethod = ObjectSchema(
        "a shipping method",
        .required("amount", .text(.price)),
        .optional("dateComponentsRange", .object(Self.dateRange)),
        .required("detail", .text(.any)),
        .required("identifier", .text(.filled)),
        .required("label", .text(.filled)))

    /// The networks that this release knows, including those that only apps have. Apple adds others.
    /// Source: Apple Pay on the Web, "Supporting payment networks"; PassKit, `PKPaymentNetwork` of SDK 27.1
    static let networks: Set = [
        "amex", "bancomat", "bancontact", "bankAxept", "barcode", "cartesBancaires", "chinaUnionPay", "conecs",
        "dankort", "discover", "eftpos", "elCorteIngles", "elcard", "electron", "elo", "girocard", "himyan", "humo",
        "iD", "interac", "jaywan", "jcb", "maal", "mada", "maestro", "masterCard", "meeza", "mir", "myDebit",
        "nanaco", "napas", "pagoBancomat", "payPak", "postFinance", "privateLabel", "quicPay", "ruPay", "suica",
        "tmoney", "uzCard", "vPay", "verve", "visa", "waon",
    ]
    static let capabilities = [
        "supports3DS", "supportsEMV", "supportsCredit", "supportsDebit", "supportsInstantFundsOut",
    ]
    /// Members that Apple's present documents lack.
    static let deprecated = ["applePayLaterAvailability"]
    private static let contactFields = ["email", "name", "phone", "postalAddress", "phoneticName"]

    private static func item(_ title: String, label: TextFormat, amount: MemberSchema) -> ObjectSchema {
        ObjectSchema(
            title,
            amount,
            .optional("automaticReloadPaymentThresholdAmount", .text(.price)),
            .optional("deferredPaymentDate", .text(.dateTime)),
            .optional("disbursementLineItemType", .choice(["disbursement", "instantFundsOutFee"])),
            .required("label", .text(label)),
            .optional("paymentTiming", .choice(["immediate", "recurring", "deferred", "automaticReload"])),
            .optional("recurringPaymentEndDate", .text(.dateTime)),
            .optional("recurringPaymentIntervalCount", .wholeNumber(1...10_000)),
            .optional("recurringPaymentIntervalUnit", .choice(["year", "month", "day", "hour", "minute"])),
            .optional("recurringPaymentStartDate", .text(.dateTime)),
            .optional("type", .choice(["final", "pending"])))
    }

    private static let dateRange = ObjectSchema(
        "a range of dates", .required("endDateComponents", .object(Self.dateComponents)),
        .required("startDateComponents", .object(Self.dateComponents)))

    private static let dateComponents = ObjectSchema(
        "date components", .optional("days", .wholeNumber(0...10_000)), .optional("hours", .wholeNumber(0...10_000)),
        .optional("months", .wholeNumber(0...10_000)), .optional("years", .wholeNumber(0...10_000)))

    private static let contact = ObjectSchema(
        "a contact",
        .optional("addressLines", .array(of: .text(.any))),
        .optional("administrativeArea", .text(.any)),
        .optional("country", .text(.any)),
        .optional("countryCode", .text(.any)),
        .optional("emailAddress", .text(.any)),
        .optional("familyName", .text(.any)),
        .optional("givenName", .text(.any)),
        .optional("locality", .text(.any)),
        .optional("phoneNumber", .text(.any)),
        .optional("phoneticFamilyName", .text(.any)),
        .optional("phoneticGivenName", .text(.any)),
        .optional("postalCode", .text(.any)),
        .optional("subAdministrativeArea", .text(.any)),
        .optional("subLocality", .text(.any)))

    private static let recurring = ObjectSchema(
        "a recurring payment request",
        .optional("billingAgreement", .text(.any)),
        .required("managementURL", .text(.url)),
        .required("paymentDescription", .text(.filled)),
        .required("regularBilling", .object(Self.lineItem)),
        .optional("tokenNotificationURL", .text(.url)),
        .optional("trialBilling", .object(Self.lineItem)))

    private static let automaticReload = ObjectSchema(
        "an automatic reload payment request",
        .required("automaticReloadBilling", .object(Self.lineItem)),
        .optional("billingAgreement", .text(.any)),
        .required("managementURL", .text(.url)),
        .required("paymentDescription", .text(.filled)),
        .optional("tokenNotificationURL", .text(.url)))

    private static let deferred = ObjectSchema(
        "a deferred payment request",
        needs: [
            ("freeCancellationDate", "freeCancellationDateTimeZone"),
            ("freeCancellationDateTimeZone", "freeCancellationDate"),
        ],
        .optional("billingAgreement", .text(.any)),
        .required("deferredBilling", .object(Self.lineItem)),
        .optional("freeCancellationDate", .text(.dateTime)),
        .optional("freeCancellationDateTimeZone", .text(.timeZone)),
        .required("managementURL", .text(.url)),
        .required("paymentDescription", .text(.filled)),
        .optional("tokenNotificationURL", .text(.url)))

    private static let disbursement = ObjectSchema(
        "a disbursement request",
        .optional("requiredRecipientContactFields", .array(of: .choice(Self.contactFields))))

    private static let tokenContext = ObjectSchema(
        "a payment token context",
        .required("amount", .text(.price)),
        .required("externalIdentifier", .text(.filled)),
        .optional("merchantDomain", .text(.filled)),
        .required("merchantIdentifier", .text(.filled)),
        .required("merchantName", .text(.filled)))
}
