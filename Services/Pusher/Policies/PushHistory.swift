import APNS
import Model

/// The outcomes of the attempts of one notification, for its dead letter: the first few and the last few.
///
/// Holds neither push token nor device. Bounded: 12 attempts of some 100 bytes.
struct PushHistory: Hashable, Sendable {
    /// One attempt that failed.
    struct Attempt: Hashable, Sendable {
        /// The time of its outcome, milliseconds since 1970.
        let epochMilliseconds: Int64
        /// The answer's status, nil without an answer.
        let status: Int?
        /// The answer's reason.
        let reason: String?
        /// `apns-id` of the answer, which Apple's support asks for.
        let apnsID: String?
        /// The reason why there was no answer.
        let error: APNSError.Code?

        init(_ outcome: PushOutcome, epochMilliseconds: Int64) {
            self.epochMilliseconds = epochMilliseconds
            switch outcome {
            case .answered(let answer):
                self.status = answer.status
                self.reason = answer.reason.map(PushReason.word)
                self.apnsID = answer.apnsID.flatMap(uuid)
                self.error = nil
            case .unanswered(let error):
                self.status = nil
                self.reason = nil
                self.apnsID = nil
                self.error = error.code
            }
        }

        /// The outcome as text, such as `429 TooManyRequests`, `500` or `timeout`.
        var text: String {
            if let error = self.error { return error.rawValue }
            return ([self.status.map { String($0) }, self.reason] as [String?]).compactMap { $0 }
                .joined(separator: " ")
        }

        /// An object with the available fields.
        var json: JSON {
            var members: [(String, JSON)] = [("at", .integer(self.epochMilliseconds))]
            if let status = self.status { members.append(("status", .integer(Int64(status)))) }
            if let reason = self.reason { members.append(("reason", .string(reason))) }
            if let apnsID = self.apnsID { members.append(("apnsId", .string(apnsID))) }
            if let error = self.error { members.append(("error", .string(error.rawValue))) }
            return .object(JSONObject(members))
        }
    }

    /// The beginning is as informative as the end.
    static let firstKept = 4
    static let lastKept = 8

    private(set) var first: [Attempt] = []
    private(set) var last: [Attempt] = []
    /// The number of attempts between `first` and `last`, which are not kept.
    private(set) var omitted = 0

    init() {}

    /// All attempts, kept or not.
    var count: Int { self.first.count + self.omitted + self.last.count }

    /// The last attempt.
    var newest: Attempt? { self.last.last ?? self.first.last }

    mutating func append(_ outcome: PushOutcome, epochMilliseconds: Int64) {
        let attempt = Attempt(outcome, epochMilliseconds: epochMilliseconds)
        if self.first.count < Self.firstKept {
            self.first.append(attempt)
            return
        }
        if self.last.count == Self.lastKept {
            self.last.removeFirst()
            self.omitted += 1
        }
        self.last.append(attempt)
    }
}

/// Returns a text that looks like an `apns-id`, else nil: other text from an unknown server is not passed on.
private func uuid(_ text: String) -> String? {
    let isUUID = text.utf8.count == 36 && text.utf8.allSatisfy { $0 == UInt8(ascii: "-") || isHexadecimal($0) }
    return isUUID ? text : nil
}

private func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
        UInt8(ascii: "A")...UInt8(ascii: "F"):
        true
    default: false
    }
}
