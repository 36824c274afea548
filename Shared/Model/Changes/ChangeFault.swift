/// The reason why a change cannot be applied, as in the headers of its dead letter.
public struct ChangeFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of fault, for programs: the header `waybill-error`.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// The value is longer than `OrderChange.valueLimit`, or has more entries than `JSON.entryLimit`.
        case valueTooLarge = "value-too-large"
        /// There is no value where one is needed.
        case missingValue = "missing-value"
        /// The record's key is missing or names no order.
        case invalidKey = "invalid-key"
        /// The value or a header is not UTF-8.
        case invalidUTF8 = "invalid-utf8"
        /// The value is not one JSON text.
        case invalidJSON = "invalid-json"
        /// An attribute of the event is missing or wrong.
        case invalidEvent = "invalid-event"
        /// The event is of a type that Waybill does not know.
        case unknownType = "unknown-type"
        /// `subject` and the record's key name different orders.
        case subjectMismatch = "subject-mismatch"
        /// The data does not have the shape that the event's type requires.
        case invalidChange = "invalid-change"
        /// An update for an order that does not exist.
        case unknownOrder = "unknown-order"
        /// The order would not be valid with this change.
        case invalidOrder = "invalid-order"
        /// There is no brand of this order type. Reported by the packager.
        case unknownOrderType = "unknown-order-type"
        /// No package can be made of the order. Reported by the packager.
        case invalidPackage = "invalid-package"
        /// The state of the order in Redis cannot be read. Reported by the packager.
        case corruptState = "corrupt-state"
        /// Several workers ended while they had only this record in work. Reported by packager and pusher.
        case workerEnded = "worker-ended"
        /// A record of a source has another format than the source says. This one and those below: reported by ingest.
        case mapUndecodable = "map-undecodable"
        /// The registry does not have the schema that a record of a source names, or has one that cannot be read.
        case mapSchemaMissing = "map-schema-missing"
        /// The source's program failed.
        case mapFailed = "map-failed"
        /// The source's program needed too much memory or time, or returned too much.
        case mapLimit = "map-limit"
        /// The process that mapped the record ended, and again when it was alone.
        case mapCrashed = "map-crashed"
        /// The source's program returned a number with a fraction.
        case mapInexact = "map-inexact"
        /// The packager would refuse a change that the source's program returned.
        case mapInvalidChange = "map-invalid-change"
        /// The source's program asked for the order of a parcel that no order has.
        case mapUnknownAlias = "map-unknown-alias"

        /// True for a record of a source, which is not a change yet.
        public var isOfSource: Bool { Self.isOfSource(self.rawValue) }

        /// Returns true if a code is one of these, or one that only another version has.
        public static func isOfSource(_ code: String) -> Bool { code.hasPrefix("map-") }
    }

    public let code: Code
    /// A sentence that a person can act on, with the JSON path. Holds no secrets; at most `reasonLimit` bytes.
    public let reason: String

    public init(code: Code, reason: String) {
        self.code = code
        // A scalar has at most four bytes.
        self.reason =
            reason.utf8.count <= Self.reasonLimit
            ? reason : "\(String(reason.unicodeScalars.prefix(Self.reasonLimit / 4 - 1)))…"
    }

    /// The longest reason, in bytes: it is sent in a Kafka header.
    public static let reasonLimit = 4096

    public var description: String { "\(self.code.rawValue): \(self.reason)" }
}
