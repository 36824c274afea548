import Brands
import Model
import Operations

/// Everything that was found about one order, without personal data: no values of its document, no token, no device.
struct OrderFacts: Sendable {
    var key: OrderKey
    /// The time of the look, in milliseconds since 1970.
    var nowMilliseconds: Int64
    var brand: BrandFact
    var redis: Result<RedisFacts, Unread>
    /// The last record of `waybill.orders`; nil if there is none.
    var record: Result<RecordFact?, Unread>
    /// The dead letters that are neither replayed nor closed, oldest first.
    var letters: Result<[LetterFact], Unread>
    /// The changes that are not committed.
    var waiting: Result<[WaitingFact], Unread>
    /// The partitions of `waybill.orders`; nil if that is not known.
    var partitions: Int?
    /// The reasons why the changes that wait make no order.
    var lacks: [String] = []
}

/// The reason why something could not be read.
struct Unread: Error, Hashable, CustomStringConvertible {
    let description: String
}

/// The brand of an order.
enum BrandFact: Hashable, Sendable {
    case loaded([BrandCertificate])
    /// It cannot be loaded, for this reason.
    case failing(String)
    /// No brand has this order type.
    case unknown
}

/// The facts of Redis about an order.
struct RedisFacts: Hashable, Sendable {
    /// True if an order that is missing does not exist.
    var isComplete = true
    /// The reason why the stored order cannot be read.
    var corruption: String?
    /// Nil if there is none.
    var order: StoredFacts?
    var devices = 0
    /// Early changes that are kept until the order is created.
    var early = 0
    /// True if a removal is remembered.
    var wasRemoved = false
    /// The partitions of `waybill.orders` when all its keys were in the right ones; nil if that is not known.
    var partitions: Int?
}

/// An order in Redis, or the trace of a removed one.
struct StoredFacts: Hashable, Sendable {
    var version: Int64
    var modifiedEpochSeconds: Int64 = 0
    var isRemoved = false
    /// True if the record of this version was acknowledged.
    var isPublished = true
    /// True if Redis has the place of its record alone.
    var isCold = false
    var hasPackage = true
    /// True if its package is made when somebody asks for it.
    var isUnpackaged = false
    /// The files of its package.
    var assets = 0
    /// Those of them that are not stored.
    var missingAssets = 0
    /// True if the brand's certificate signed the package; nil if that is not known.
    var isSigned: Bool?
    /// True if the brand would make the same package now; nil if that is not known.
    var isCurrent: Bool?
    var token: TokenOrigin?
    var sources: [Contributions.Summary] = []
    /// The last sequence number of each source.
    var sequences: [SequenceFact] = []
    var pictures = PictureFacts()
    /// Its own documents.
    var documents = PictureFacts()
    /// Elements that its sources sent and it does not show, each with the reason.
    var hiddenElements: [String] = []
    /// Files that it names and its package does not have, each with its place.
    var omittedFiles: [String] = []
    /// Where it does not keep Apple's guidelines.
    var guidelines: [OrderGuideline.Finding] = []
}

/// The last sequence number that was applied of a source.
struct SequenceFact: Hashable, Sendable {
    let source: String
    let number: String
}

/// The secret that an order's token was minted with.
enum TokenOrigin: Hashable, Sendable {
    /// A secret of the file, by its place from 0, which mints.
    case minted(place: Int, of: Int, isOfBrand: Bool)
    /// The order brought it.
    case brought
    /// No present secret, though it looks like a minted one: of a removed secret, or brought.
    case unknown
}

/// The pictures, or the own documents, that an order names by URLs of hosts that its brand allows.
struct PictureFacts: Hashable, Sendable {
    var named = 0
    /// Pictures that are not in Redis.
    var missing = 0
    /// Those of them that the order waits for; the others were given up for the time being.
    var pending = 0
    /// Those of them that could not be fetched yet.
    var failing = 0
    /// Pictures that were given up after failures.
    var givenUp = 0
    /// The reasons of the missing ones, each once, sorted.
    var failures: [String] = []

    /// - Parameter failure: the last reason for which it could not be fetched.
    mutating func add(isMissing: Bool, isPending: Bool, failure: String?) {
        self.named += 1
        guard isMissing else { return }
        self.missing += 1
        if isPending { self.pending += 1 }
        guard let failure else { return }
        if isPending { self.failing += 1 } else { self.givenUp += 1 }
        if !self.failures.contains(failure) { self.failures = (self.failures + [failure]).sorted() }
    }
}

/// A record of `waybill.orders`.
struct RecordFact: Hashable, Sendable {
    enum Content: Hashable, Sendable {
        case version(Int64)
        /// A tombstone; the version is nil if it does not have one.
        case removed(Int64?)
        /// It is not a record that Waybill writes, for this reason.
        case unreadable(String)
    }

    let content: Content
    let partition: Int32
    let offset: Int64
    let milliseconds: Int64

    var place: String { "\(self.partition)/\(self.offset)" }
}

/// A dead letter of an order.
struct LetterFact: Hashable, Sendable {
    let position: DeadLetterPosition
    let milliseconds: Int64
    let code: String
}

/// The changes of an order in a partition of a topic of changes that are neither applied nor committed.
struct WaitingFact: Hashable, Sendable {
    let topic: String
    let partition: Int32
    /// The first of them.
    let offset: Int64
    let milliseconds: Int64
    let changes: Int

    var place: String { "\(self.topic)/\(self.partition)/\(self.offset)" }
}
