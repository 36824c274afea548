/// The grammar of the members of an order.json, as Apple defines it and no stricter.
///
/// A table independent of Model's schema, so that the two check each other. Unknown members are ignored, as Wallet
/// does. Source: Wallet Orders §3
enum OrderGrammar {
    /// The required form of a value.
    indirect enum Form: Sendable {
        case text
        /// A text that is not empty.
        case identifier
        case dateTime
        case duration
        case link
        /// A decimal number in a string.
        case amount
        /// A text of exactly this number of capital letters.
        case letters(Int)
        case flag
        case number(ClosedRange<Double>)
        case choice([String])
        /// The name of a PNG or JPEG of the package.
        case picture
        /// The name of a PDF, JPEG or PNG of the package.
        case document
        case list(Form)
        case object(Members)
        /// `shipping` or `pickup`, by the member `fulfillmentType`.
        case fulfillment
    }

    /// The members of an object.
    struct Members: Sendable {
        let required: [String: Form]
        let optional: [String: Form]
    }

    private static let anyNumber: Form = .number(-Double.infinity ... .infinity)

    /// §3.1
    static let order = Members(
        required: [
            "schemaVersion": .number(1...2), "orderType": .choice(["ecommerce"]), "orderTypeIdentifier": .identifier,
            "orderIdentifier": .identifier, "createdAt": .dateTime, "updatedAt": .dateTime,
            "status": .choice(["open", "completed", "cancelled"]), "merchant": .object(merchant),
            "orderManagementURL": .link,
        ],
        optional: [
            "orderNumber": .text, "statusDescription": .text, "customer": .object(customer),
            "payment": .object(payment), "lineItems": lineItems, "fulfillments": .list(.fulfillment),
            "returns": .list(.object(aReturn)), "returnInfo": .object(returnInfo), "barcode": .object(barcode),
            "orderProvider": .object(orderProvider), "associatedApplications": .list(.object(application)),
            "associatedApplicationIdentifiers": .list(.text),
            "changeNotifications": .choice(["enabled", "disabledIfAppInstalled"]), "webServiceURL": .link,
            "authenticationToken": .text,
        ])

    /// §3.2
    private static let merchant = Members(
        required: ["merchantIdentifier": .identifier, "displayName": .text, "url": .link],
        optional: [
            "logo": .picture, "address": .object(address), "businessChatURL": .link, "contactURL": .link,
            "emailAddress": .text, "phoneNumber": .text,
        ])

    /// §3.3
    private static let address = Members(
        required: [:],
        optional: [
            "addressLines": .list(.text), "locality": .text, "subLocality": .text, "administrativeArea": .text,
            "subAdministrativeArea": .text, "postalCode": .text, "countryCode": .letters(2),
        ])

    /// §3.4
    private static let location = Members(
        required: ["latitude": .number(-90...90), "longitude": .number(-180...180)], optional: ["altitude": anyNumber])

    /// §3.5
    private static let currencyAmount: Form = .object(
        Members(required: ["amount": .amount, "currency": .letters(3)], optional: [:]))

    /// §3.6
    private static let barcode = Members(
        required: [
            "format": .choice(["qr", "pdf417", "aztec", "code128"]), "message": .text, "messageEncoding": .text,
        ],
        optional: ["altText": .text])

    /// §3.7
    private static let application = Members(
        required: ["storeIdentifier": anyNumber], optional: ["customProductPageIdentifier": .text, "launchURL": .text])

    /// §3.8
    private static let customer = Members(
        required: [:],
        optional: [
            "givenName": .text, "familyName": .text, "organizationName": .text, "emailAddress": .text,
            "phoneNumber": .text,
        ])

    /// §3.9
    private static let lineItems: Form = .list(
        .object(
            Members(
                required: ["title": .text, "quantity": .number(0 ... .infinity)],
                optional: [
                    "subtitle": .text, "price": currencyAmount, "image": .picture, "sku": .text, "gtin": .text,
                ])))

    /// §3.10
    private static let payment = Members(
        required: ["total": currencyAmount],
        optional: [
            "status": .choice(["pending", "authorized", "paid", "refunded", "declined", "voided"]),
            "summaryItems": .list(
                .object(Members(required: ["label": .text, "value": currencyAmount], optional: [:]))),
            "transactions": .list(.object(transaction)), "paymentMethods": .list(.text),
            "applePayTransactionIdentifiers": .list(.text),
        ])

    /// §3.11
    private static let transaction = Members(
        required: [
            "amount": currencyAmount, "createdAt": .dateTime,
            "paymentMethod": .object(Members(required: ["displayName": .text], optional: [:])),
            "status": .choice(["pending", "approved", "completed", "cancelled", "failed"]),
            "transactionType": .choice(["purchase", "refund"]),
        ],
        optional: ["applePayTransactionIdentifier": .text, "receipt": .document])

    /// §3.12
    static let shipping = Members(
        required: [
            "fulfillmentIdentifier": .identifier,
            "status": .choice([
                "open", "processing", "shipped", "onTheWay", "outForDelivery", "delivered", "issue", "cancelled",
            ]),
        ],
        optional: [
            "statusDescription": .text, "shippingType": .choice(["shipping", "delivery"]), "carrier": .text,
            "trackingNumber": .text, "trackingURL": .link, "shippedAt": .dateTime, "deliveredAt": .dateTime,
            "estimatedDeliveryAt": .dateTime, "estimatedDeliveryWindowDuration": .duration,
            "recipient": .object(recipient), "lineItems": lineItems, "notes": .text,
        ])

    private static let recipient = Members(
        required: [:],
        optional: [
            "address": .object(address), "givenName": .text, "familyName": .text, "organizationName": .text,
        ])

    /// §3.13
    static let pickup = Members(
        required: [
            "fulfillmentIdentifier": .identifier, "displayName": .text,
            "status": .choice(["open", "processing", "readyForPickup", "pickedUp", "issue", "cancelled"]),
        ],
        optional: [
            "statusDescription": .text, "pickupAt": .dateTime, "pickupWindowDuration": .duration,
            "pickedUpAt": .dateTime, "address": .object(address), "location": .object(location),
            "barcode": .object(barcode), "lineItems": lineItems, "notes": .text,
        ])

    /// §3.14
    private static let aReturn = Members(
        required: [
            "returnIdentifier": .identifier,
            "status": .choice(["open", "onTheWay", "processing", "issue", "completed", "cancelled"]),
        ],
        optional: [
            "statusDescription": .text, "notes": .text, "carrier": .text, "initiatedAt": .dateTime,
            "dropOffBy": .dateTime, "returnedAt": .dateTime, "returnNumber": .text, "returnLabel": .document,
            "returnManagementURL": .link, "lineItems": lineItems,
        ])

    /// §3.15
    private static let returnInfo = Members(
        required: ["returnPolicyURL": .link],
        optional: [
            "returnPolicyDescription": .text, "returnManagementURL": .link, "returnDeadline": .dateTime,
            "displayCountdown": .flag,
        ])

    /// §3.16
    private static let orderProvider = Members(
        required: [
            "displayName": .text, "url": .link, "trackingLogoNameLightColorScheme": .picture,
            "trackingLogoNameDarkColorScheme": .picture,
        ],
        optional: [:])
}
