import Model

/// The rules for requests, and the reasons with which APNs refuses a request.
///
/// The order is ours where Apple specifies none: the request itself, its sender, its headers, its body. The first
/// violated rule determines the answer. Source: Wallet Orders §4.3, §4.6
public struct APNSSimulatorRules: Hashable, Sendable {
    /// The topics that may be pushed to; empty allows any with a provider token.
    public var topics: Set<String>

    /// The most bytes of a body. Source: Wallet Orders §4.3
    public static let bodyLimit = 4096
    /// The most bytes of `apns-collapse-id`. Source: Wallet Orders §4.3
    public static let collapseIdentifierLimit = 64
    /// The plausible numbers of hexadecimal digits of a device token: Apple specifies no length.
    public static let tokenDigits = 8...200
    /// Source: Apple, "Sending notification requests to APNs", header `apns-push-type`
    public static let pushTypes: Set<String> = [
        "alert", "background", "location", "voip", "complication", "fileprovider", "mdm", "liveactivity", "pushtotalk",
        "controls", "widgets",
    ]

    public init(topics: Set<String> = []) { self.topics = topics }

    /// Checks the rules that apply to every sender.
    /// - Returns: nil if none is violated.
    public func refusal(ofShapeOf request: APNSSimulatorRequest) -> APNSSimulatorAnswer? {
        guard request.method == "POST" else { return APNSSimulatorAnswer(405, "MethodNotAllowed") }
        guard request.deviceToken != nil else { return APNSSimulatorAnswer(404, "BadPath") }
        return request.hasDuplicates ? APNSSimulatorAnswer(400, "DuplicateHeaders") : nil
    }

    /// Checks the rules for headers and path, after the sender is known.
    /// - Parameter certificateTopic: the user identifier of the client's certificate; nil with a provider token.
    /// - Returns: nil if none is violated.
    public func refusal(
        ofHeadersOf request: APNSSimulatorRequest, certificateTopic: String?
    ) -> APNSSimulatorAnswer? {
        if let reason = self.topicFault(request.topic, certificateTopic: certificateTopic) {
            return APNSSimulatorAnswer(400, reason)
        }
        guard let token = request.deviceToken, !token.isEmpty else {
            return APNSSimulatorAnswer(400, "MissingDeviceToken")
        }
        guard Self.tokenDigits.contains(token.utf8.count), token.utf8.allSatisfy(Self.isHexadecimal) else {
            return APNSSimulatorAnswer(400, "BadDeviceToken")
        }
        if let identifier = request.identifier, APNSSimulatorIdentifier(canonical: identifier) == nil {
            return APNSSimulatorAnswer(400, "BadMessageId")
        }
        if let type = request.pushType, !Self.pushTypes.contains(type) {
            return APNSSimulatorAnswer(400, "InvalidPushType")
        }
        guard Self.isPriority(request.priority, of: request.pushType) else {
            return APNSSimulatorAnswer(400, "BadPriority")
        }
        if let expiration = request.expiration, Self.seconds(expiration) == nil {
            return APNSSimulatorAnswer(400, "BadExpirationDate")
        }
        if let collapse = request.collapseIdentifier,
            collapse.isEmpty || collapse.utf8.count > Self.collapseIdentifierLimit
        {
            return APNSSimulatorAnswer(400, "BadCollapseId")
        }
        return nil
    }

    /// Checks the rules for the body.
    ///
    /// `BadPayload` is our own reason: Apple's table names none for a body that is not a JSON object.
    public func refusal(ofBody body: [UInt8]) -> APNSSimulatorAnswer? {
        if body.isEmpty { return APNSSimulatorAnswer(400, "PayloadEmpty") }
        if body.count > Self.bodyLimit { return APNSSimulatorAnswer(413, "PayloadTooLarge") }
        if body == [UInt8(ascii: "{"), UInt8(ascii: "}")] { return nil }
        guard let json = try? JSON(parsing: body), json.object != nil else {
            return APNSSimulatorAnswer(400, "BadPayload")
        }
        return nil
    }

    /// Returns the reason to refuse a topic; nil if it is allowed. A certificate is valid for its own topic only, which
    /// is then the default; any sender is limited to `topics`.
    private func topicFault(_ topic: String?, certificateTopic: String?) -> String? {
        guard let topic = topic ?? certificateTopic else { return "MissingTopic" }
        guard !topic.isEmpty, topic.utf8.allSatisfy(Self.isTopicByte) else { return "BadTopic" }
        if let certificateTopic, certificateTopic != topic { return "TopicDisallowed" }
        return self.topics.isEmpty || self.topics.contains(topic) ? nil : "TopicDisallowed"
    }

    /// Returns true if the priority is valid. An absent priority means 10, and 10 is an error for background
    /// notifications.
    private static func isPriority(_ priority: String?, of pushType: String?) -> Bool {
        switch priority ?? "10" {
        case "10": pushType != "background"
        case "5", "1": true
        default: false
        }
    }

    /// Parses a UNIX time in whole seconds; nil if the text is anything else.
    ///
    /// The bound (the year 2106) is ours: Apple specifies none, but milliseconds in place of seconds must be rejected.
    static func seconds(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt32(text).map { Int64($0) }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) || (0x41...0x46).contains(byte)
    }

    private static func isTopicByte(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || (0x41...0x5A).contains(byte)
            || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}
