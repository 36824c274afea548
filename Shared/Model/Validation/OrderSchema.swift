/// order.json as a table: the same as `order.schema.json`, with which the tests compare it.
///
/// Source: Wallet Orders §3.1 to §3.16
enum OrderSchema {
    static let order = ObjectSchema(
        "an order",
        needs: [("webServiceURL", "authenticationToken")],
        .optional("associatedApplicationIdentifiers", .array(of: .text(.filled))),
        .optional("associatedApplications", .array(of: .object(Self.application))),
        .optional("authenticationToken", .text(.token)),
        .optional("barcode", .object(Self.barcode)),
        .optional("changeNotifications", .choice(ChangeNotifications.allCases.map(\.rawValue))),
        .required("createdAt", .text(.dateTime)),
        .optional("customer", .object(Self.customer)),
        .optional("fulfillments", .array(of: .fulfillment)),
        .optional("lineItems", .array(of: .object(Self.lineItem))),
        .required("merchant", .object(Self.merchant)),
        .identity("orderIdentifier", .text(.orderIdentifier)),
        .required("orderManagementURL", .text(.url)),
        .optional("orderNumber", .text(.filled)),
        .optional("orderProvider", .object(Self.orderProvider)),
        .identity("orderType", .choice(["ecommerce"])),
        .identity("orderTypeIdentifier", .text(.orderTypeIdentifier)),
        .optional("payment", .object(Self.payment)),
        .optional("returnInfo", .object(Self.returnInfo)),
        .optional("returns", .array(of: .object(Self.return))),
        .required("schemaVersion", .wholeNumber(1...2)),
        .required("status", .choice(["open", "completed", "cancelled"])),
        .optional("statusDescription", .text(.filled)),
        .required("updatedAt", .text(.dateTime)),
        .optional("webServiceURL", .text(.httpsURL)))

    static let currencyAmount = ObjectSchema(
        "an amount", .required("amount", .text(.decimal)), .required("currency", .text(.currency)))

    static let shipping = ObjectSchema(
        "a shipping fulfillment",
        needs: [("estimatedDeliveryWindowDuration", "estimatedDeliveryAt")],
        .optional("carrier", .text(.filled)),
        .optional("deliveredAt", .text(.dateTime)),
        .optional("estimatedDeliveryAt", .text(.dateTime)),
        .optional("estimatedDeliveryWindowDuration", .text(.duration)),
        .identity("fulfillmentIdentifier", .text(.filled)),
        .identity("fulfillmentType", .choice(["shipping"])),
        .optional("lineItems", .array(of: .object(Self.lineItem))),
        .optional("notes", .text(.filled)),
        .optional("recipient", .object(Self.recipient)),
        .optional("shippedAt", .text(.dateTime)),
        .optional("shippingType", .choice(["shipping", "delivery"])),
        .required(
            "status",
            .choice([
                "open", "processing", "onTheWay", "outForDelivery", "delivered", "shipped", "issue", "cancelled",
            ])),
        .optional("statusDescription", .text(.filled)),
        .optional("trackingNumber", .text(.filled)),
        .optional("trackingURL", .text(.url)))

    static let pickup = ObjectSchema(
        "a pickup fulfillment",
        needs: [("pickupWindowDuration", "pickupAt")],
        .optional("address", .object(Self.address)),
        .optional("barcode", .object(Self.barcode)),
        .required("displayName", .text(.filled)),
        .identity("fulfillmentIdentifier", .text(.filled)),
        .identity("fulfillmentType", .choice(["pickup"])),
        .optional("lineItems", .array(of: .object(Self.lineItem))),
        .optional("location", .object(Self.location)),
        .optional("notes", .text(.filled)),
        .optional("pickedUpAt", .text(.dateTime)),
        .optional("pickupAt", .text(.dateTime)),
        .optional("pickupWindowDuration", .text(.duration)),
        .required(
            "status", .choice(["open", "processing", "readyForPickup", "pickedUp", "issue", "cancelled"])),
        .optional("statusDescription", .text(.filled)))

    static let lineItem = ObjectSchema(
        "a line item",
        .optional("gtin", .text(.filled)),
        .optional("image", .text(.image)),
        .optional("price", .amount),
        .required("quantity", .number(0...Double.greatestFiniteMagnitude)),
        .optional("sku", .text(.filled)),
        .optional("subtitle", .text(.filled)),
        .required("title", .text(.filled)))

    static let merchant = ObjectSchema(
        "a merchant",
        .optional("address", .object(Self.address)),
        .optional("businessChatURL", .text(.url)),
        .optional("contactURL", .text(.url)),
        .required("displayName", .text(.filled)),
        .optional("emailAddress", .text(.email)),
        .optional("logo", .text(.image)),
        .identity("merchantIdentifier", .text(.filled)),
        .optional("phoneNumber", .text(.filled)),
        .required("url", .text(.url)))

    private static let payment = ObjectSchema(
        "a payment",
        .optional("applePayTransactionIdentifiers", .array(of: .text(.filled))),
        .optional("paymentMethods", .array(of: .text(.filled))),
        .optional("status", .choice(["pending", "authorized", "paid", "refunded", "declined", "voided"])),
        .optional("summaryItems", .array(of: .object(Self.summaryItem))),
        .required("total", .amount),
        .optional("transactions", .array(of: .object(Self.transaction))))

    private static let summaryItem = ObjectSchema(
        "a summary item", .required("label", .text(.filled)), .required("value", .amount))

    private static let transaction = ObjectSchema(
        "a transaction",
        .required("amount", .amount),
        .optional("applePayTransactionIdentifier", .text(.filled)),
        .required("createdAt", .text(.dateTime)),
        .required(
            "paymentMethod", .object(ObjectSchema("a payment method", .required("displayName", .text(.filled))))),
        .optional("receipt", .text(.file)),
        .required("status", .choice(["pending", "approved", "completed", "cancelled", "failed"])),
        .required("transactionType", .choice(["purchase", "refund"])))

    static let `return` = ObjectSchema(
        "a return",
        .optional("carrier", .text(.filled)),
        .optional("dropOffBy", .text(.dateTime)),
        .optional("initiatedAt", .text(.dateTime)),
        .optional("lineItems", .array(of: .object(Self.lineItem))),
        .optional("notes", .text(.filled)),
        .identity("returnIdentifier", .text(.filled)),
        .optional("returnLabel", .text(.label)),
        .optional("returnManagementURL", .text(.url)),
        .optional("returnNumber", .text(.filled)),
        .optional("returnedAt", .text(.dateTime)),
        .required("status", .choice(["open", "onTheWay", "processing", "issue", "completed", "cancelled"])),
        .optional("statusDescription", .text(.filled)))

    static let returnInfo = ObjectSchema(
        "a return info",
        .optional("displayCountdown", .boolean),
        .optional("returnDeadline", .text(.dateTime)),
        .optional("returnManagementURL", .text(.url)),
        .optional("returnPolicyDescription", .text(.filled)),
        .required("returnPolicyURL", .text(.url)))

    private static let orderProvider = ObjectSchema(
        "an order provider",
        .required("displayName", .text(.filled)),
        .required("trackingLogoNameDarkColorScheme", .text(.image)),
        .required("trackingLogoNameLightColorScheme", .text(.image)),
        .required("url", .text(.url)))

    private static let customer = ObjectSchema(
        "a customer",
        .optional("emailAddress", .text(.email)),
        .optional("familyName", .text(.any)),
        .optional("givenName", .text(.any)),
        .optional("organizationName", .text(.any)),
        .optional("phoneNumber", .text(.any)))

    private static let recipient = ObjectSchema(
        "a recipient",
        .optional("address", .object(Self.address)),
        .optional("familyName", .text(.any)),
        .optional("givenName", .text(.any)),
        .optional("organizationName", .text(.any)))

    private static let address = ObjectSchema(
        "an address",
        .optional("addressLines", .array(of: .text(.any))),
        .optional("administrativeArea", .text(.any)),
        .optional("countryCode", .text(.country)),
        .optional("locality", .text(.any)),
        .optional("postalCode", .text(.any)),
        .optional("subAdministrativeArea", .text(.any)),
        .optional("subLocality", .text(.any)))

    private static let location = ObjectSchema(
        "a location",
        .optional("altitude", .number(-Double.greatestFiniteMagnitude...Double.greatestFiniteMagnitude)),
        .required("latitude", .number(-90...90)),
        .required("longitude", .number(-180...180)))

    private static let barcode = ObjectSchema(
        "a barcode",
        .optional("altText", .text(.filled)),
        .required("format", .choice(["qr", "pdf417", "aztec", "code128"])),
        .required("message", .text(.filled)),
        .required("messageEncoding", .text(.filled)))

    private static let application = ObjectSchema(
        "an application",
        .optional("customProductPageIdentifier", .text(.filled)),
        .optional("launchURL", .text(.filled)),
        .required("storeIdentifier", .wholeNumber(1...Double.greatestFiniteMagnitude)))
}

/// The members that an object may have. A class, so that passing it on takes one reference instead of three.
final class ObjectSchema: Sendable {
    /// The title with its article, for messages.
    let title: String
    /// Sorted by name, as the members of a `JSONObject` are, so that one pass over both checks an object.
    let members: [MemberSchema]
    /// The members that require another member.
    let needs: [(member: String, needed: String)]

    init(_ title: String, needs: [(member: String, needed: String)] = [], _ members: MemberSchema...) {
        self.title = title
        self.members = members.sorted { $0.key < $1.key }
        self.needs = needs
    }
}

/// One member of an object.
struct MemberSchema: Sendable {
    let key: ByteText
    let isRequired: Bool
    let shape: Shape
    /// True if it says which thing its object is, or of what kind.
    var isIdentity = false

    var name: String { self.key.text }

    static func required(_ name: String, _ shape: Shape) -> MemberSchema {
        MemberSchema(key: ByteText(name), isRequired: true, shape: shape)
    }

    /// A required member that says which thing its object is, or of what kind.
    static func identity(_ name: String, _ shape: Shape) -> MemberSchema {
        MemberSchema(key: ByteText(name), isRequired: true, shape: shape, isIdentity: true)
    }

    static func optional(_ name: String, _ shape: Shape) -> MemberSchema {
        MemberSchema(key: ByteText(name), isRequired: false, shape: shape)
    }
}

/// The required shape of a value.
enum Shape: Sendable {
    case text(TextFormat)
    case choice([String])
    case number(ClosedRange<Double>)
    case wholeNumber(ClosedRange<Double>)
    case boolean
    case object(ObjectSchema)
    indirect case array(of: Shape)
    /// An object whose currency must be the order's.
    case amount
    /// An object whose `fulfillmentType` decides which members it may have.
    case fulfillment
}
