import Cryptography
import Model
import Redis

/// The keys of Redis, one constant each. `StoreKeyKind` has the beginnings of all.
///
/// Braces are hash tags: all keys of one script are in one slot of a cluster. Source: Design §7
enum StoreKeys {
    static func order(_ key: OrderKey) -> String { Self.tagged(.order, key) }
    /// Appends the parts: interpolation costs a microsecond, and this runs for each request of the gateway.
    private static func tagged(_ kind: StoreKeyKind, _ key: OrderKey) -> String {
        var text = kind.rawValue
        text.reserveCapacity(28 + key.orderType.rawValue.utf8.count + key.order.rawValue.utf8.count)
        text += ":{"
        text += key.orderType.rawValue
        text += "/"
        text += key.order.rawValue
        text += "}"
        return text
    }
    /// Marks an order that was removed, for longer than its trace: `OrderStore.goneSeconds`.
    static func gone(_ key: OrderKey) -> String { Self.tagged(.gone, key) }
    /// A hash: device -> the `RegistrationRecord` as JSON: the devices that are notified.
    static func devices(_ key: OrderKey) -> String { Self.tagged(.devices, key) }
    /// A hash: device -> `<offset>:<moment>::<origin>`, the `RegistrationStamp` of its registration.
    static func stamps(_ key: OrderKey) -> String { Self.tagged(.devicesStamps, key) }
    /// A hash like `stamps`, but by digests of devices: the ended registrations of an order, remembered for an hour.
    static func ended(_ key: OrderKey) -> String { Self.tagged(.devicesEnded, key) }
    /// A number: the time when the debt of an order's new devices is paid, in milliseconds of the store's clock.
    static func admitted(_ key: OrderKey) -> String { Self.tagged(.devicesAdmitted, key) }
    /// A set of order identifiers: the orders that the device may list.
    static func listed(_ device: DeviceTag) -> String { Self.tagged(.listed, device.text) }
    /// A hash: order identifier -> the same stamp, with the microsecond of the store's clock at the registration.
    static func stamps(_ device: DeviceTag) -> String { Self.tagged(.listedStamps, device.text) }
    /// The device's counterpart of an order's ended registrations.
    static func ended(_ device: DeviceTag) -> String { Self.tagged(.listedEnded, device.text) }
    /// The prefix of the keys of all orders.
    static let anyOrder = "\(StoreKeyKind.order.rawValue):{"
    /// Returns the order in its key; nil for any other key.
    static func order(ofKey key: String) -> OrderKey? {
        guard key.hasPrefix(Self.anyOrder), key.hasSuffix("}") else { return nil }
        return try? OrderKey(String(key.dropFirst(Self.anyOrder.count).dropLast()))
    }
    /// The prefix of the keys of a type's orders.
    static func orders(_ type: OrderTypeIdentifier) -> (prefix: String, suffix: String) {
        ("\(Self.anyOrder)\(type)/", "}")
    }
    /// The progress of a scan of a type's orders.
    static func bookmark(_ type: OrderTypeIdentifier) -> String { Self.tagged(.bookmark, type.rawValue) }
    static func asset(_ digest: String) -> String { "\(Self.assets.prefix)\(digest)\(Self.assets.suffix)" }
    /// The beginning and the end of the keys of all assets.
    static let assets = (prefix: "\(StoreKeyKind.asset.rawValue):{", suffix: "}")
    /// Returns the digest in an asset's key; nil for any other key.
    static func digest(ofAsset key: String) -> String? {
        guard key.hasPrefix(Self.assets.prefix), key.hasSuffix(Self.assets.suffix) else { return nil }
        return String(key.dropFirst(Self.assets.prefix.count).dropLast(Self.assets.suffix.count))
    }
    /// Exists while no order is known to name an asset: `<milliseconds>:<history of the server>`.
    static func unusedMark(_ digest: String) -> String { Self.tagged(.assetUnused, digest) }
    /// A hash: the owner of the asset sweep, or the time when it is due.
    static let sweep = StoreKeyKind.assetSweep.rawValue

    /// A hash: the facts about a fetched picture, by the text of its `PictureKey`.
    static func picture(_ key: String) -> String { Self.tagged(.picture, key) }
    /// A sorted set: the text of a `PictureKey` by the time when it is to be fetched.
    static func due(ofDocuments: Bool) -> String {
        (ofDocuments ? StoreKeyKind.documentsDue : .picturesDue).rawValue
    }
    /// A hash: order -> `<version> <second>[ <URL>]`, the version that was published without the picture or document.
    static func waitingOrders(_ key: String, ofDocuments: Bool) -> String {
        "\((ofDocuments ? StoreKeyKind.documentsWaiting : .picturesWaiting).rawValue):\(key)"
    }
    /// A hash: order type -> bytes of the own documents of its orders, see `OwnDocumentBytes`.
    static let documentBytes = StoreKeyKind.documentBytes.rawValue

    /// A sorted set: order -> the millisecond when its package was asked for, see `PackageRequests`.
    static let packageRequests = StoreKeyKind.packageRequests.rawValue

    /// The order of a token that was handed out, under the token's digest.
    static func token(_ token: String) -> String { Self.tagged(.token, SHA256.hex(Array(token.utf8))) }
    /// The order and the fulfillment that have a parcel, under the digest of carrier and number, and the order alone,
    /// as earlier releases read it: see `ParcelIndex`.
    static func parcel(_ parcel: Parcel) -> (owner: String, order: String) {
        let digest = SHA256.hex(Array("\(parcel.carrier)/\(parcel.number)".utf8))
        return (Self.tagged(.parcelOwner, digest), Self.tagged(.parcel, digest))
    }
    /// A pattern of the keys of all parcels.
    static let anyParcel = "\(StoreKeyKind.parcel.rawValue)*"
    /// Returns the two keys of a parcel by one of them; nil for any other key.
    static func parcel(ofKey key: String) -> (owner: String, order: String)? {
        guard let brace = key.firstIndex(of: "{"), key.hasSuffix("}") else { return nil }
        let digest = String(key[key.index(after: brace)...].dropLast())
        let both = (owner: Self.tagged(.parcelOwner, digest), order: Self.tagged(.parcel, digest))
        return [both.owner, both.order].contains(key) ? both : nil
    }
    /// A request that may be sent again, under the digest of its name: see `RepeatedRequests`.
    static func repeated(_ name: String) -> String { Self.tagged(.repeated, SHA256.hex(Array(name.utf8))) }

    /// A hash: claim -> the merchant that holds it, see `ClaimHolders`.
    static let claims = StoreKeyKind.claims.rawValue
    /// A hash: `<cluster>/<topic>/<partition>` -> `<offset>:<millisecond>`, see `NotifiedPositions`.
    static let notifiedPositions = StoreKeyKind.notifiedPositions.rawValue
    /// A hash: counts of a brand's adoption, see `AdoptionTotals`.
    static let adoption = StoreKeyKind.adoption.rawValue
    /// A hash: the packager whose turn it is to publish them, or the time when that is due.
    static let adoptionTurn = StoreKeyKind.adoptionTurn.rawValue
    /// A pattern of all keys that begin with those of `devices` or `listed`, and of others.
    static let anyRegistered = String(StoreKeyKind.devices.rawValue.prefix { $0 != "d" }) + "[dl]*"
    /// Returns the brand of an order that has devices, or of a device that has orders, by its key; nil for any other.
    static func brand(ofRegistered key: String) -> (brand: OrderTypeIdentifier, isOrder: Bool)? {
        let isOrder = key.hasPrefix("\(StoreKeyKind.devices.rawValue):{")
        guard isOrder || key.hasPrefix("\(StoreKeyKind.listed.rawValue):{"), key.hasSuffix("}"),
            let brace = key.firstIndex(of: "{")
        else { return nil }
        let parts = key[key.index(after: brace)...].dropLast().split(separator: "/", maxSplits: 1)
        guard parts.count == 2, let brand = try? OrderTypeIdentifier(String(isOrder ? parts[0] : parts[1])) else {
            return nil
        }
        return (brand, isOrder)
    }
    /// Hashes: the marks of what the workers of a consumer group have in work, and the keys that were in work when one
    /// of them ended, see `WorkMarks`.
    static func work(_ group: String) -> String { Self.tagged(.work, group) }
    static func suspects(_ group: String) -> String { Self.tagged(.suspects, group) }
    /// A hash: topic -> its number of partitions when all its keys were where they belong.
    static let partitions = StoreKeyKind.partitions.rawValue

    // Keys of the view as a whole: one of each on a single server, or on every master of a cluster.

    /// Exists exactly while the view is complete: `<random>:<history of the server>`.
    static func epoch(_ hashTag: String?) -> String { Self.ofView(.epoch, hashTag) }
    /// A hash: `<cluster>/<topic>/<partition>` -> an offset below which everything is certainly stored here.
    static func tails(_ hashTag: String?) -> String { Self.ofView(.tails, hashTag) }
    /// The restore in progress: `<plan>:<history of the server>`.
    static func plan(_ hashTag: String?) -> String { Self.ofView(.plan, hashTag) }
    /// The value of `plan`, if the server had no order when that began: all of its orders are then as Kafka has them.
    static func startedEmpty(_ hashTag: String?) -> String { Self.ofView(.startedEmpty, hashTag) }
    /// The last time when the whole view was complete and the slots of this master were marked:
    /// `<millisecond of its clock>:<digest of its slots>:<history of the server>`.
    static func marked(_ hashTag: String?) -> String { Self.ofView(.marked, hashTag) }
    /// The prefix of a key in each slot of a cluster, followed by the slot's tag: the history of the master that served
    /// the slot when the view was complete.
    static let slotMark = "\(StoreKeyKind.slotMark.rawValue):{"
    /// A hash: `plan` and, per partition that is read, its owner and progress; followed by a colon and the cluster.
    static let jobs = Self.tagged(.jobs, "jobs")
    /// The same for a restore of orders of one type, by command.
    static func jobs(_ type: OrderTypeIdentifier) -> String { Self.tagged(.jobs, type.rawValue) }

    private static func tagged(_ kind: StoreKeyKind, _ tag: String) -> String { "\(kind.rawValue):{\(tag)}" }

    private static func ofView(_ kind: StoreKeyKind, _ hashTag: String?) -> String {
        hashTag.map { Self.tagged(kind, $0) } ?? kind.rawValue
    }
}

/// Names a device in keys by a digest, so that no device chooses the slot of its keys, and no key reveals a device.
///
/// Half of SHA-256: a collision with another device takes 2^128 attempts.
struct DeviceTag: Hashable, Sendable {
    /// `<32 hexadecimal digits>/<order type>`
    let text: String

    init(_ device: DeviceIdentifier, _ type: OrderTypeIdentifier) {
        self.text = "\(SHA256.hex(Array(device.rawValue.utf8)).prefix(32))/\(type)"
    }
}

/// Returns the digests of a list, as the field `assets` has it.
///
/// By bytes: the `split` of a text finds the boundaries of its characters first, at ten times the cost.
func digests(_ list: String) -> [String] {
    list.utf8.split(separator: UInt8(ascii: " ")).map { String(Substring($0)) }
}

/// Returns the parts of a value that has colons between them, by bytes as well; parts may be empty.
func parts(_ value: String) -> [Substring] {
    value.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).map(Substring.init)
}

extension RedisCommand {
    /// Makes the command that reads a span of an order's package by its digest or reference: a document is in the hash
    /// of its order.
    init(ofSpan digest: String, of key: OrderKey, ifShared shared: RedisArgument, else own: RedisArgument) {
        if OwnDocument.isReference(digest) {
            self.init(own, .string(StoreKeys.order(key)), .string(digest))
        } else {
            self.init(shared, .string(StoreKeys.asset(digest)))
        }
    }
}

/// The fields of an order's hash.
enum OrderField: String {
    /// The authentication token that fetches the order.
    case token
    /// Counts the states that were packaged, from `OrderState.firstVersion`.
    case version
    /// Modification second, UNIX epoch: `updatedAt` and `Last-Modified`.
    case modified
    /// Entity tag without quotes. A version without a package has none of the package's fields.
    case etag
    /// Bytes of the archive between the assets and the certificates.
    case head
    /// Digests of the spans that orders share, separated by spaces: the assets in the order of the archive, then the
    /// certificates. Among the assets are references of the order's own documents, whose bytes are fields of those
    /// names: see `OwnDocument`.
    case assets
    /// The identifiers of the order's own documents, separated by spaces. The fields of the `PictureRecord` of each
    /// have the identifier and a dot before their names. They end with the package.
    case own
    /// Bytes of the archive after the certificates.
    case tail
    /// The folded order document.
    case document
    /// Positions and sequences that were applied.
    case sources
    /// The changes applied last.
    case recent
    /// The parts of several sources that the document is made of, if it is.
    case contributions
    /// Microseconds of the store's clock when the version was written, the measure of `ordersModifiedSince`.
    case stamp
    /// Counts the writes of the hash, from 1.
    case revision
    /// The certificates inside the package's signature.
    case signer
    /// Digest of everything in the package except the signature. A restored version has it without the package.
    case content
    /// A version that was written by a process other than the owner of the order's partition, and whose record on
    /// `waybill.orders` is not acknowledged yet.
    case unpublished
    /// The version whose record on `waybill.orders` was acknowledged last. While it has to be announced again `-` and a
    /// digest of the positions that the record has to have; empty if an earlier release wrote it.
    case told
    /// The `PublishedRecord` of the version, whether devices are told of that or not; `-` if it is not known yet, empty
    /// if something was written that it does not have. An order that has this and no `document` is cold, see `Cooling`.
    case record
    /// The UNIX second when a package was last asked for that had not been made.
    case requested
    /// `1` if the package was fetched, where that is counted.
    case fetched
    /// `1` if the order was removed and only the data that idempotence needs is left.
    case removed
    /// The changes that wait until the order is created, or until their dead letters are closed after that. An order
    /// that never was has no field but this one and `revision`.
    case waiting
}

/// The scripts that change Redis, each in the folder of the types that call it. Each touches one slot.
enum StoreScripts {}
