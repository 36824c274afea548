import Model

extension APNSSimulatorFault {
    /// The members that select where and when a fault applies.
    private static let selectors: Set<String> = ["token", "connection", "count", "probability", "for", "now"]
    /// Members that belong to some kinds only.
    private static let companions: Set<String> = [
        "reason", "timestampEpochMilliseconds", "timestampOffsetSeconds", "timestamp", "retryAfterSeconds", "body",
        "bodyBytes", "identifier", "refuseOpen",
    ]
    /// The kinds of faults. A fault has at most one of them; `delayMilliseconds` goes alone or with `status`.
    private static let kinds = [
        "status", "goaway", "cut", "silence", "maxConcurrentStreams", "halfClose", "mute", "blackHole", "resetStream",
        "slowReads", "shutWindow", "trickle", "lateSettingsMilliseconds", "refuseHandshake",
        "slowHandshakeMilliseconds", "dropConnects", "closeListener", "clockSeconds",
    ]

    /// Parses the body of `POST /faults`; `waybill-dev apns --help` describes its members.
    /// - Parameter nowEpochMilliseconds: the timestamp of a 410 without one.
    init(json bytes: [UInt8], nowEpochMilliseconds: Int64) throws(APNSSimulatorFaultError) {
        try self.init(
            APNSSimulatorMembers(json: bytes, "a fault"), nowEpochMilliseconds: nowEpochMilliseconds)
    }

    init(_ members: APNSSimulatorMembers, nowEpochMilliseconds: Int64) throws(APNSSimulatorFaultError) {
        try members.allow(
            Self.selectors.union(Self.companions).union(Self.kinds).union(["delayMilliseconds"]), of: "a fault")
        let token = try members.string("token")
        let isNow = try members.bool("now") ?? false
        let expected = "a whole number from 1, oldest, newest, busiest or random"
        let place: (number: Int?, choice: Choice?)? = try members.value("connection", expected) { json in
            if let choice = json.string.flatMap({ Choice(rawValue: $0) }) { return (nil, choice) }
            return json.integer.flatMap { (1...1_000_000_000).contains($0) ? (Int($0), nil) : nil }
        }
        self.init(
            try Self.effect(of: members, nowEpochMilliseconds: nowEpochMilliseconds), token: token,
            connection: place?.number, choice: place?.choice, count: try members.int("count", 1...1_000_000_000),
            probability: try members.double("probability", 0...1),
            lifetimeMilliseconds: try members.milliseconds("for"), isImmediate: isNow)
        try self.check(members)
    }

    /// Rejects meaningless combinations.
    private func check(_ members: APNSSimulatorMembers) throws(APNSSimulatorFaultError) {
        let hasNarrowing = self.token != nil || self.count != nil || self.probability != nil
        switch self.effect {
        case .answer, .delay, .randomDelay, .resetStream, .connect, .closeListener, .clock:
            if self.isImmediate {
                throw members.error("$.now goes with goaway, cut, silence and the illnesses of connections only")
            }
        case .maxConcurrentStreams:
            if self.isImmediate || hasNarrowing {
                throw members.error("maxConcurrentStreams holds until cleared, for a connection or for all")
            }
        case .goAway, .farewell, .cut, .reset, .halfClose, .silence, .condition:
            if self.isImmediate && hasNarrowing {
                throw members.error(
                    "with $.now nothing waits for a request, so there is no token, count or probability")
            }
        }
        switch self.effect {
        case .connect:
            if self.token != nil || self.connection != nil || self.choice != nil {
                throw members.error("what befalls new connections has no token and no connection")
            }
        case .closeListener, .clock:
            if hasNarrowing || self.connection != nil || self.choice != nil {
                throw members.error("closeListener and clockSeconds are for all")
            }
        default: break
        }
    }

    private static func effect(
        of members: APNSSimulatorMembers, nowEpochMilliseconds: Int64
    ) throws(APNSSimulatorFaultError) -> Effect {
        let kinds = Self.kinds.filter { members.has($0) }
        guard kinds.count <= 1 else {
            throw members.error("a fault is one thing, not \(kinds.joined(separator: " and "))")
        }
        let kind = kinds.first
        if kind != "status" {
            for name in Self.companions.sorted() where name != "refuseOpen" && members.has(name) {
                throw members.error("$.\(name) goes with status only")
            }
            if kind != nil && members.has("delayMilliseconds") {
                throw members.error("$.delayMilliseconds goes with status or alone")
            }
        }
        if kind != "maxConcurrentStreams" && members.has("refuseOpen") {
            throw members.error("$.refuseOpen goes with maxConcurrentStreams only")
        }
        guard let kind else { return try Self.delay(of: members) }
        if let illness = try Self.condition(kind, members) { return illness }
        switch kind {
        case "status":
            return .answer(
                try Self.answer(members, nowEpochMilliseconds: nowEpochMilliseconds),
                delayMilliseconds: try members.int("delayMilliseconds", 0...600_000) ?? 0)
        case "goaway": return try Self.goAway(members)
        case "cut":
            if members.object["cut"]?.string == "reset" { return .reset }
            if members.object["cut"]?.string != "fin" { try members.requireTrue("cut") }
            return .cut
        case "lateSettingsMilliseconds":
            return .connect(.lateSettings(milliseconds: try members.int(kind, 0...600_000) ?? 0))
        case "slowHandshakeMilliseconds":
            return .connect(.slowHandshake(milliseconds: try members.int(kind, 0...600_000) ?? 0))
        case "refuseHandshake":
            return .connect(.refuseHandshake(alert: UInt8(clamping: try members.int(kind, 0...255) ?? 40)))
        case "resetStream": return .resetStream(errorCode: try members.int(kind, 0...0xFFFF_FFFF) ?? 0)
        case "clockSeconds":
            let seconds = try members.double(kind, -1_000_000_000...1_000_000_000) ?? 0
            return .clock(shiftMilliseconds: Int64(seconds * 1000))
        default:
            try members.requireTrue(kind)
            switch kind {
            case "halfClose": return .halfClose
            case "dropConnects": return .connect(.drop)
            case "closeListener": return .closeListener
            default: return .silence
            }
        }
    }

    private static func condition(
        _ kind: String, _ members: APNSSimulatorMembers
    ) throws(APNSSimulatorFaultError) -> Effect? {
        switch kind {
        case "maxConcurrentStreams":
            let limit = try members.int(kind, 0...100_000) ?? 0
            return try members.bool("refuseOpen") ?? false
                ? .condition(.refusingStreamLimit(limit)) : .maxConcurrentStreams(limit)
        case "slowReads": return .condition(.slowReads(try members.pace(kind)))
        case "trickle": return .condition(.trickle(try members.pace(kind)))
        case "mute", "blackHole", "shutWindow":
            try members.requireTrue(kind)
            return .condition(kind == "mute" ? .mute : kind == "blackHole" ? .blackHole : .shutWindow)
        default: return nil
        }
    }

    private static func delay(of members: APNSSimulatorMembers) throws(APNSSimulatorFaultError) -> Effect {
        guard let json = members.object["delayMilliseconds"] else {
            throw members.error(
                "a fault needs one of \(Self.kinds.joined(separator: ", ")), delayMilliseconds")
        }
        if let ends = json.array, ends.count == 2, let least = ends[0].integer, let most = ends[1].integer,
            (0...600_000).contains(least), (least...600_000).contains(most)
        {
            return .randomDelay(Int(least)...Int(most))
        }
        if json.array != nil {
            throw members.error("$.delayMilliseconds must be two whole numbers from 0 to 600000, the least first")
        }
        return .delay(milliseconds: try members.int("delayMilliseconds", 0...600_000) ?? 0)
    }

    private static func goAway(_ outer: APNSSimulatorMembers) throws(APNSSimulatorFaultError) -> Effect {
        guard let object = outer.object["goaway"], object.object != nil else {
            throw outer.error("$.goaway must be an object")
        }
        let members = try APNSSimulatorMembers(object, "\(outer.path).goaway", "goaway")
        try members.allow(
            ["reason", "processed", "errorCode", "debug", "behind", "pairMilliseconds", "stays"], of: "a fault")
        let reason = try members.string("reason")
        let processed = try members.bool("processed") ?? true
        let behind = try members.int("behind", 0...1_000_000)
        let pair = try members.int("pairMilliseconds", 0...600_000)
        let code = try members.int("errorCode", 0...0xFFFF_FFFF)
        let debug = try members.string("debug")
        let stays = try members.bool("stays")
        if behind == nil, pair == nil, code == nil, debug == nil, stays == nil {
            return .goAway(reason: reason ?? "", processed: processed)
        }
        return .farewell(
            APNSSimulatorGoAway(
                reason: reason, debug: debug, errorCode: code ?? 0,
                last: behind.map { .behind($0) } ?? (processed ? .processed : .unprocessed),
                pairPauseMilliseconds: pair, closes: !(stays ?? false)))
    }

    private static func answer(
        _ members: APNSSimulatorMembers, nowEpochMilliseconds: Int64
    ) throws(APNSSimulatorFaultError) -> APNSSimulatorAnswer {
        let status = try members.int("status", 200...599)
        let timestamp = try members.integer("timestampEpochMilliseconds")
        var answer = APNSSimulatorAnswer(
            status ?? 500, try members.string("reason"), timestampEpochMilliseconds: timestamp)
        let offset = try members.double("timestampOffsetSeconds", -1_000_000_000...1_000_000_000)
        answer.timestampOffsetMilliseconds = offset.map { Int64($0 * 1000) }
        answer.retryAfterSeconds = try members.int("retryAfterSeconds", 0...1_000_000_000)
        answer.hasIdentifier = try members.bool("identifier") ?? true
        let bytes = try members.int("bodyBytes", 0...10_000_000) ?? 1_000_000
        let forms = "none, broken, huge, page or unfinished"
        let form: APNSSimulatorAnswer.Form? = try members.value("body", forms) { json in
            switch json.string {
            case "none": APNSSimulatorAnswer.Form.none
            case "broken": .broken
            case "huge": .huge(bytes: bytes)
            case "page": .page(bytes: bytes)
            case "unfinished": .unfinished
            default: nil
            }
        }
        answer.form = form ?? .usual
        let hasNone: Bool? = try members.value("timestamp", "none") { $0.string == "none" ? true : nil }
        guard answer.status == 410, timestamp == nil, offset == nil, hasNone == nil else { return answer }
        answer.timestampEpochMilliseconds = nowEpochMilliseconds
        return answer
    }
}
