extension RandomHTTP2Server {
    /// Returns the server's next output: nothing, a frame, or several that belong together.
    public mutating func speak() -> [UInt8] {
        let first = self.due
        self.due = []
        return first + self.utterance()
    }

    private mutating func utterance() -> [UInt8] {
        var die = self.number(below: 1_000)
        func isChosen(_ share: Int) -> Bool {
            die -= share
            return die < 0
        }
        if isChosen(self.manner.broken) { return self.broken() }
        if isChosen(self.manner.goAway) { return self.goAway() }
        if isChosen(self.manner.reset) { return self.reset() }
        if isChosen(self.manner.settings) { return self.someSettings() }
        if isChosen(30) { return Self.frame(6, 0, 0, self.bytes(8)) }
        if isChosen(30) { return self.windowUpdate() }
        if isChosen(20) {
            let weight = UInt8(self.number(below: 256))
            return Self.frame(2, 0, self.anyStream() ?? 1, Self.big(0) + [weight])
        }
        if isChosen(20) {
            let type = UInt8(20 + self.number(below: 200))
            return Self.frame(type, UInt8(self.number(below: 256)), UInt32(self.number(below: 9)), self.anyBytes(40))
        }
        if isChosen(100) { return [] }
        return self.manner.isSilent ? [] : self.answer()
    }

    // MARK: Answers

    private mutating func answer() -> [UInt8] {
        guard let stream = self.anyStream(), self.open[stream]?.isAnswered == false else { return [] }
        if self.open[stream]?.status != nil { return self.rest(of: stream) }
        var bytes: [UInt8] = []
        if self.chance(0.1) {
            bytes += self.headers(stream, [(":status", "103"), ("apns-id", "early")], isLast: false)
        }
        let status = self.pick([200, 200, 200, 400, 403, 410, 413, 429, 500, 503, 204, 301, 599])
        self.open[stream]?.status = status
        let isLast = self.chance(0.5)
        var fields = [(":status", "\(status)"), ("apns-id", "identifier-\(stream)")]
        if self.chance(0.2) { fields.append(("retry-after", self.pick(["1", "x", "99999999999999999999", ""]))) }
        if self.chance(0.1) { fields.append(("x-long", String(repeating: "y", count: 100))) }
        bytes += self.headers(stream, fields, isLast: isLast)
        if isLast { bytes += self.answerEnded(stream, status) }
        return bytes
    }

    /// Returns more of an answer whose status was sent: a part of its body, its end, or its trailers.
    private mutating func rest(of stream: UInt32) -> [UInt8] {
        guard let status = self.open[stream]?.status else { return [] }
        // RFC 9110 §6.4.1: no content with these.
        let mayHaveBody = status != 204
        if mayHaveBody, self.chance(0.3) { return self.data(stream, self.anyBytes(300), isLast: false) }
        if self.chance(0.2) {
            return self.headers(stream, [("x-trailer", "1")], isLast: true) + self.answerEnded(stream, status)
        }
        let body = mayHaveBody ? Array(self.pick([#"{"reason":"Unregistered"}"#, "{", "", "[]", "null"]).utf8) : []
        return self.data(stream, body, isLast: true) + self.answerEnded(stream, status)
    }

    private mutating func answerEnded(_ stream: UInt32, _ status: Int) -> [UInt8] {
        self.open[stream]?.isAnswered = true
        self.answered[stream] = status
        self.forgetIfOver(stream)
        // A request that is not complete need not be sent to its end (RFC 9113 §8.1).
        guard self.open[stream] != nil, self.chance(0.5) else { return [] }
        self.open[stream] = nil
        return Self.frame(3, 0, stream, Self.big(0))
    }

    // MARK: Other than answers

    private mutating func reset() -> [UInt8] {
        guard let stream = self.anyStream(), self.open[stream]?.isAnswered == false else { return [] }
        self.open[stream] = nil
        let code = self.chance(0.6) ? 7 : UInt32(self.number(below: 16))
        let frame = Self.frame(3, 0, stream, Self.big(code))
        // APNs has been observed to send it more than once.
        return self.chance(0.1) ? frame + frame : frame
    }

    private mutating func goAway() -> [UInt8] {
        // Answered streams were processed; the number may only fall.
        let least = max(self.answered.keys.max() ?? 0, self.open.filter { $0.value.status != nil }.keys.max() ?? 0)
        var last = self.pick([UInt32(Int32.max), self.highest, self.highest, least, self.anyStream() ?? 0])
        last = max(least, min(last, self.lastStream ?? .max))
        self.lastStream = last
        for stream in self.open.keys where stream > last { self.open[stream] = nil }
        let reason = self.pick([#"{"reason":"Shutdown"}"#, #"{"reason":"BadCertificate"}"#, "", "{", "\u{0}\u{1}"])
        return Self.frame(7, 0, 0, Self.big(last) + Self.big(UInt32(self.number(below: 14))) + Array(reason.utf8))
    }

    private mutating func someSettings() -> [UInt8] {
        var pairs: [(UInt16, UInt32)] = []
        if self.chance(0.7) { pairs.append((3, self.pick([0, 1, 1, 2, 5, 50, 100, 1_000, .max]))) }
        if self.chance(0.2) { pairs.append((1, self.pick([0, 64, 4_096, 65_536]))) }
        if self.chance(0.2) { pairs.append((4, self.pick([0, 1, 65_535, 1 << 20]))) }
        if self.chance(0.1) { pairs.append((5, self.pick([16_384, 1 << 20]))) }
        if self.chance(0.1) { pairs.append((UInt16(100 + self.number(below: 100)), 7)) }
        return self.settings(pairs)
    }

    mutating func settings(_ pairs: [(UInt16, UInt32)]) -> [UInt8] {
        for (identifier, value) in pairs where identifier == 3 { self.limit = value }
        self.unacknowledged.append(self.limit)
        return Self.frame(4, 0, 0, pairs.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] + Self.big($1) })
    }

    private mutating func windowUpdate() -> [UInt8] {
        let stream = self.chance(0.7) ? 0 : self.anyStream() ?? 0
        return Self.frame(8, 0, stream, Self.big(1 + UInt32(self.number(below: 10_000))))
    }

    private mutating func broken() -> [UInt8] {
        self.isBroken = true
        let stream = self.anyStream() ?? 1
        return switch self.number(below: 15) {
        case 0: self.anyBytes(60)
        case 1: Self.frame(0, 0, 0, [1])
        case 2: Self.frame(1, 5, stream + 1_000, [0x88])
        case 3: Self.frame(6, 0, 0, [1, 2, 3, 4, 5, 6, 7])
        case 4: Self.frame(8, 0, 0, Self.big(0))
        case 5: Self.frame(4, 0, 0, [0, 3, 0])
        case 6: Self.frame(4, 0, 0, [0, 4] + Self.big(.max))
        case 7: Self.frame(1, 5, stream, self.anyBytes(30))
        case 8: Self.frame(5, 4, stream, Self.big(2) + [0x82])
        case 9: Self.frame(9, 4, stream, [0x88])
        case 10: [0xFF, 0xFF, 0xFF] + Self.frame(0, 0, stream, [])
        case 11: self.headers(stream, [(":status", self.pick(["", "2000", "abc", "-1", "99"]))], isLast: true)
        case 12: self.headers(stream, [(":status", "200"), ("Upper", "x"), ("connection", "close")], isLast: true)
        case 13: self.headers(stream, [(":status", "200"), ("content-length", "5")], isLast: true)
        default: Self.frame(8, 0, 0, Self.big(UInt32(Int32.max)))
        }
    }

    // MARK: Frames

    /// Returns a header block in literals without indexing (RFC 7541 §6.2.2): sometimes padded, with a priority, or in
    /// two pieces.
    private mutating func headers(_ stream: UInt32, _ fields: [(String, String)], isLast: Bool) -> [UInt8] {
        var block = fields.flatMap { name, value -> [UInt8] in
            [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
        }
        var flags: UInt8 = isLast ? 1 : 0
        var rest: [UInt8]?
        if self.chance(0.15), block.count > 1 {
            let cut = 1 + self.number(below: block.count - 1)
            rest = Array(block[cut...])
            block = Array(block[..<cut])
        } else {
            flags |= 4
        }
        if self.chance(0.1) {
            flags |= 0x20
            block = Self.big(0) + [16] + block
        }
        if self.chance(0.15) {
            flags |= 8
            let padding = self.number(below: 20)
            block = [UInt8(padding)] + block + Array(repeating: 0, count: padding)
        }
        return Self.frame(1, flags, stream, block) + (rest.map { Self.frame(9, 4, stream, $0) } ?? [])
    }

    private mutating func data(_ stream: UInt32, _ content: [UInt8], isLast: Bool) -> [UInt8] {
        let flags: UInt8 = isLast ? 1 : 0
        guard self.chance(0.2) else { return Self.frame(0, flags, stream, content) }
        let padding = self.number(below: 256)
        return Self.frame(
            0, flags | 8, stream, [UInt8(padding)] + content + Array(repeating: 0, count: padding))
    }

    /// Source: RFC 9113 §4.1
    static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
        let length = UInt32(payload.count)
        return [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), type, flags]
            + self.big(stream) + payload
    }

    static func big(_ number: UInt32) -> [UInt8] {
        [UInt8(number >> 24), UInt8(number >> 16 & 0xFF), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)]
    }

    // MARK: Chance

    /// Returns a random open stream. The keys are sorted first, because a seed does not reproduce a dictionary's order.
    private mutating func anyStream() -> UInt32? { self.open.keys.sorted().randomElement(using: &self.random) }

    private mutating func number(below bound: Int) -> Int { Int.random(in: 0..<bound, using: &self.random) }
    private mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &self.random) < share }
    private mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self.random) }
    }
    private mutating func anyBytes(_ most: Int) -> [UInt8] { self.bytes(self.number(below: most + 1)) }
    /// - Parameter choices: not empty.
    private mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[self.number(below: choices.count)] }
}
