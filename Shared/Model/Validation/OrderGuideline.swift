/// A rule of Apple's guidelines. An order that does not keep one is valid, and tells its customer less than it could.
///
/// Source: Wallet Orders §3.21
public enum OrderGuideline: Int, CaseIterable, Sendable {
    case carrier = 1
    case trackingLink
    case expectedDate
    case explanation
    case title
    case pictureSize
    case contacts
    case managementLink

    /// The rule as labels and programs name it.
    public var code: String {
        switch self {
        case .carrier: "carrier-missing"
        case .trackingLink: "tracking-link-missing"
        case .expectedDate: "expected-date-missing"
        case .explanation: "status-unexplained"
        case .title: "title-long"
        case .pictureSize: "picture-small"
        case .contacts: "contacts-few"
        case .managementLink: "management-link-general"
        }
    }

    /// The fault and its correction, for people.
    public var advice: String {
        switch self {
        case .carrier: "give a shipment that is on its way the name of its carrier"
        case .trackingLink: "give a shipment that is on its way a trackingURL that leads to this parcel"
        case .expectedDate: "give an expected date, or say in statusDescription when there will be one"
        case .explanation: "say in statusDescription why there is an issue or a cancellation, and what comes next"
        case .title: "make the title brief: at most \(Self.titleLimit) characters; details belong in the subtitle"
        case .pictureSize: "use a picture of at least \(Self.pictureSide) by \(Self.pictureSide) pixels"
        case .contacts: "give the merchant two contacts or more: emailAddress, phoneNumber, contactURL, businessChatURL"
        case .managementLink:
            "let orderManagementURL be an https link to this order's page, which the merchant's app opens, too"
        }
    }

    /// The most characters of a brief title. Apple gives no number.
    static let titleLimit = 60
    /// The pixels of a picture's shorter side.
    static let pictureSide = 300

    /// A place at which an order does not keep a guideline.
    public struct Finding: Hashable, Sendable, CustomStringConvertible {
        public let guideline: OrderGuideline
        /// Such as `$.fulfillments[0]`.
        public let path: String

        public init(guideline: OrderGuideline, path: String) {
            self.guideline = guideline
            self.path = path
        }

        /// Such as `tracking-link-missing: $.fulfillments[0]: give …`.
        public var description: String { "\(self.guideline.code): \(self.path): \(self.guideline.advice)" }
    }

    /// Returns where an order does not keep the guidelines, in the sequence of its members.
    ///
    /// - Parameters:
    ///   - order: a valid order.json, or some of its members: what it does not have, such as a merchant that the brand
    ///     brings, is not judged.
    ///   - shortSide: returns the pixels of the shorter side of a file's picture, nil if that is not known; without it
    ///     no picture is judged.
    public static func findings(in order: JSON, shortSide: ((_ file: String) -> Int?)? = nil) -> [Finding] {
        guard let order = order.object else { return [] }
        var review = OrderReview()
        review.judge(order)
        if let shortSide {
            order.forEachFile { name, place in
                // Apple gives no size for the logos of an order provider.
                guard place.isPicture, place.path.first != .member("orderProvider"), let pixels = shortSide(name),
                    pixels < Self.pictureSide
                else { return }
                review.note(.pictureSize, place.text)
            }
        }
        return review.findings
    }
}

/// The review of one order.
private struct OrderReview {
    var findings: [OrderGuideline.Finding] = []

    mutating func note(_ guideline: OrderGuideline, _ path: @autoclosure () -> String) {
        self.findings.append(OrderGuideline.Finding(guideline: guideline, path: path()))
    }

    mutating func judge(_ order: JSONObject) {
        let status = order["status"]?.string
        if status == "cancelled", order["statusDescription"] == nil { self.note(.explanation, "$") }
        for (index, fulfillment) in (order["fulfillments"]?.array ?? []).enumerated() {
            guard let fulfillment = fulfillment.object else { continue }
            self.judge(fulfillment, isOpen: status == nil || status == "open") { "$.fulfillments[\(index)]" }
        }
        self.judgeItems(order) { "$" }
        if let merchant = order["merchant"]?.object {
            let contacts = ["emailAddress", "phoneNumber", "contactURL", "businessChatURL"]
            if contacts.count(where: { merchant[$0] != nil }) < 2 { self.note(.contacts, "$.merchant") }
        }
        if let link = order["orderManagementURL"]?.string, !Self.leadsInside(link) {
            self.note(.managementLink, "$.orderManagementURL")
        }
        for (index, element) in (order["returns"]?.array ?? []).enumerated() {
            guard let element = element.object else { continue }
            self.judgeStatus(element) { "$.returns[\(index)]" }
            self.judgeItems(element) { "$.returns[\(index)]" }
        }
    }

    private mutating func judge(_ fulfillment: JSONObject, isOpen: Bool, _ path: () -> String) {
        let status = fulfillment["status"]?.string
        let isExplained = fulfillment["statusDescription"] != nil
        switch fulfillment["fulfillmentType"]?.string {
        case "shipping":
            // A merchant that delivers by itself has no carrier. One without the carrier's details says "shipped".
            let isCarried = fulfillment["shippingType"]?.string != "delivery"
            let isOnItsWay = status == "onTheWay" || status == "outForDelivery"
            let isNumbered = fulfillment["trackingNumber"] != nil || fulfillment["trackingURL"] != nil
            if isCarried, isOnItsWay || isNumbered, fulfillment["carrier"] == nil { self.note(.carrier, path()) }
            if isCarried, isOnItsWay, fulfillment["trackingURL"] == nil { self.note(.trackingLink, path()) }
            let isExpected = isOnItsWay || status == "open" || status == "processing" || status == "shipped"
            if isOpen, isExpected, !isExplained, fulfillment["estimatedDeliveryAt"] == nil {
                self.note(.expectedDate, path())
            }
        case "pickup":
            let isExpected = status == "open" || status == "processing"
            if isOpen, isExpected, !isExplained, fulfillment["pickupAt"] == nil { self.note(.expectedDate, path()) }
        default: break
        }
        self.judgeStatus(fulfillment, path)
        self.judgeItems(fulfillment, path)
    }

    private mutating func judgeStatus(_ element: JSONObject, _ path: () -> String) {
        let status = element["status"]?.string
        guard status == "issue" || status == "cancelled", element["statusDescription"] == nil else { return }
        self.note(.explanation, path())
    }

    private mutating func judgeItems(_ holder: JSONObject, _ path: () -> String) {
        for (index, item) in (holder["lineItems"]?.array ?? []).enumerated() {
            guard let title = item.object?["title"]?.string, title.utf8.count > OrderGuideline.titleLimit,
                title.count > OrderGuideline.titleLimit
            else { continue }
            self.note(.title, "\(path()).lineItems[\(index)].title")
        }
    }

    /// Returns true if a link has https and leads further than to a site's first page.
    private static func leadsInside(_ link: String) -> Bool {
        guard link.utf8.count > 8, link.prefix(8).lowercased() == "https://" else { return false }
        let rest = link.utf8.dropFirst(8)
        guard let end = rest.firstIndex(where: { "/?#".utf8.contains($0) }) else { return false }
        return rest[end...].count > 1
    }
}
