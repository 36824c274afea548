public import Cryptography
import Glibc
public import Model
import Synchronization

/// Turns orders of one brand into signed packages, on any number of threads.
///
/// Keep one per brand: it caches the parts that orders have in common. The same order and brand give the same bytes,
/// except for the signature, which contains the time.
/// Source: Wallet Orders §2
public struct PackageBuilder: Sendable {
    private let signing: SigningIdentity
    private let signer: String
    private let finder: PackageFileFinder
    private let deflaters: [DeflaterSlot]
    private let certificates = KeptCertificates()

    /// - Parameters:
    ///   - assets: the brand's files by their name in packages.
    ///   - pictureHosts: the hosts that pictures named by URL in orders may come from.
    ///   - documents: the rules for receipts and labels named by URL.
    public init(
        signing: SigningIdentity, assets: [String: Asset], pictureHosts: PictureHosts, documents: DocumentRules = .none
    ) {
        self.signing = signing
        self.signer = Self.signer(of: signing)
        self.finder = PackageFileFinder(assets, pictureHosts, documents)
        self.deflaters = (0..<max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))).map { _ in DeflaterSlot() }
    }

    /// Returns an identifier of the certificates that are inside each signature: 32 hexadecimal digits.
    public static func signer(of signing: SigningIdentity) -> String {
        String(SHA256.hex(signing.certificate.der + signing.intermediate.der).prefix(32))
    }

    /// Packages one order.
    ///
    /// A missing file never prevents the package: its member is left out of order.json and listed in `omittedFiles` or
    /// `missingPictures`.
    /// - Parameters:
    ///   - orderJSON: the complete order, already validated.
    ///   - pictures: the fetched pictures, by `PictureHosts.identity`, and the order's own documents, by
    ///     `DocumentRules.identifier`.
    /// - Throws: `PackagingError` `.tooLarge` or `.signing`.
    public func build(
        _ orderJSON: JSON, pictures: [String: PictureFile] = [:], signingEpochSeconds: Int64
    ) throws(PackagingError) -> OrderPackage {
        let files = self.finder.files(of: orderJSON, pictures: pictures)
        let assets = files.assets
        let document = files.order.serialized
        // Checked early so that nothing is compressed that could never be sent; the exact size is checked below.
        guard document.count <= OrderPackage.sizeLimit else {
            throw Self.tooLarge(document.count, order: document.count, assets)
        }
        let manifest = Self.manifest(of: document, assets)
        let digest = SHA256.digest(manifest)
        let signature: DetachedSignature
        do {
            signature = try self.signing.signature(digest: digest, signingEpochSeconds: signingEpochSeconds)
        } catch {
            throw PackagingError(.signing, "signing a package: \(error.message)")
        }
        let unmet = Set(OrderGuideline.findings(in: orderJSON).map(\.guideline))
        let package = self.package(document, manifest, digest, signature, files, unmet)
        guard package.size <= OrderPackage.sizeLimit else {
            throw Self.tooLarge(package.size, order: document.count, assets)
        }
        return package
    }

    private func package(
        _ document: [UInt8], _ manifest: [UInt8], _ digest: [UInt8], _ signature: DetachedSignature,
        _ files: PackageFiles, _ unmet: Set<OrderGuideline>
    ) -> OrderPackage {
        let assets = files.assets
        let (head, entries) = self.head(document: document, manifest: manifest, signature: signature.der)
        let certificates = self.certificates.kept(of: signature)
        let own = signature.der[signature.ownStart...]
        let start = assets.size + head.count + certificates.bytes.count + own.count
        let tail = Self.tail(own, entries, directoryOffset: start, assets)
        return OrderPackage(
            assets: assets.digests, head: head, certificates: certificates, tail: tail,
            entityTag: OrderPackage.entityTag(signature.value), signer: self.signer,
            contentDigest: Self.contentDigest(digest), size: start - own.count + tail.count,
            omittedFiles: files.omitted, missingPictures: files.missingPictures, unmetGuidelines: unmet)
    }

    /// Returns the `OrderPackage.contentDigest` of an order's package, without signing it.
    public func contentDigest(of orderJSON: JSON, pictures: [String: PictureFile] = [:]) -> String {
        let files = self.finder.files(of: orderJSON, pictures: pictures)
        return Self.contentDigest(SHA256.digest(Self.manifest(of: files.order.serialized, files.assets)))
    }

    /// Returns the `OrderPackage.omittedFiles` of an order's package, without making it.
    public func omittedFiles(of orderJSON: JSON, pictures: [String: PictureFile] = [:]) -> [String] {
        self.finder.files(of: orderJSON, pictures: pictures).omitted
    }

    /// Returns true if an order's package is certainly not too large, without making it. Pictures that are fetched make
    /// none too large.
    ///
    /// - Parameters:
    ///   - bytes: at least those of order.json, which is not read if it fits with all of the brand's files.
    ///   - orderJSON: the complete order.
    public func fits(bytes: Int, _ orderJSON: @autoclosure () -> JSON) -> Bool {
        self.finder.fitsWithAll(bytes) || self.finder.files(of: orderJSON(), pictures: [:]).isWithinLimit
    }

    /// Source: Wallet Orders §2.3
    private static func manifest(of document: [UInt8], _ assets: AssetSet) -> [UInt8] {
        let digits = Hexadecimal.digits(SHA256.digest(document))
        var manifest: [UInt8] = []
        manifest.reserveCapacity(assets.manifestStart.count + digits.count + assets.manifestEnd.count)
        manifest += assets.manifestStart
        manifest += digits
        manifest += assets.manifestEnd
        return manifest
    }

    /// Returns the digest of the manifest as text. It identifies all files, since the manifest has their digests.
    private static func contentDigest(_ digest: [UInt8]) -> String {
        String(decoding: Hexadecimal.digits(Array(digest.prefix(16))), as: UTF8.self)
    }

    private func head(
        document: [UInt8], manifest: [UInt8], signature: [UInt8]
    ) -> (bytes: [UInt8], entries: [ZIPEntry]) {
        let deflated = self.deflate(document)
        let data = deflated ?? document
        let entries = [
            ZIPEntry(
                name: FileName.order, isDeflated: deflated != nil, checksum: zipChecksum(document),
                storedSize: UInt32(clamping: data.count), size: UInt32(clamping: document.count)),
            ZIPEntry(plain: FileName.manifest, manifest), ZIPEntry(plain: FileName.signature, signature),
        ]
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + manifest.count + 160)
        for (entry, content) in zip(entries, [data, manifest, []]) {
            entry.appendLocalHeader(to: &bytes)
            bytes += content
        }
        return (bytes, entries)
    }

    /// - Parameters:
    ///   - own: the end of the signature.
    ///   - entries: those of the head.
    private static func tail(
        _ own: ArraySlice<UInt8>, _ entries: [ZIPEntry], directoryOffset: Int, _ assets: AssetSet
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(own.count + assets.directory.count + 256)
        bytes += own
        bytes += assets.directory
        var offset = assets.size
        for entry in entries {
            entry.appendCentralRecord(offset: UInt32(clamping: offset), to: &bytes)
            offset += ZIPEntry.localHeaderSize + entry.name.count + Int(entry.storedSize)
        }
        ZIPEntry.appendEndRecord(
            count: entries.count + assets.digests.count, directorySize: bytes.count - own.count,
            directoryOffset: directoryOffset, to: &bytes)
        return bytes
    }

    /// Deflates with the first deflater that is free; there is one for each core.
    private func deflate(_ document: [UInt8]) -> [UInt8]? {
        for slot in self.deflaters {
            let result = slot.deflater.withLockIfAvailable { deflater in
                // Wrapped, so that "does not get smaller" is distinct from "busy".
                [deflater.deflate(document)]
            }
            if let result { return result[0] }
        }
        return self.deflaters[0].deflater.withLock { $0.deflate(document) }
    }

    private static func tooLarge(_ size: Int, order: Int, _ assets: AssetSet) -> PackagingError {
        let files = ([("order.json", order)] + assets.largest).sorted { $0.1 > $1.1 }.prefix(5)
        let list = files.map { "\($0.0) with \($0.1)" }.joined(separator: ", ")
        return PackagingError(
            .tooLarge,
            "packaging an order: it would have \(size) bytes and Wallet accepts \(OrderPackage.sizeLimit); "
                + "the largest files are \(list); use smaller pictures, receipts or labels")
    }
}

extension ZIPEntry {
    /// Makes an entry whose data is the file itself.
    fileprivate init(plain name: [UInt8], _ content: [UInt8]) {
        self.init(
            name: name, isDeflated: false, checksum: zipChecksum(content), storedSize: UInt32(clamping: content.count),
            size: UInt32(clamping: content.count))
    }
}

/// The certificates of the last package, since those of the next one are the same.
///
/// Not made in advance: a signature's size, which is at its beginning, depends on the form of its time.
private final class KeptCertificates: Sendable {
    private let last = Mutex<PackageCertificates?>(nil)

    func kept(of signature: DetachedSignature) -> PackageCertificates {
        let bytes = Array(signature.der[..<signature.ownStart])
        return self.last.withLock { last in
            if let last, last.bytes.count == bytes.count, unsafe memcmp(last.bytes, bytes, bytes.count) == 0 {
                return last
            }
            let made = PackageCertificates(bytes)
            last = made
            return made
        }
    }
}

/// One deflater, for one thread at a time.
private final class DeflaterSlot: Sendable {
    let deflater = Mutex(Deflater.forOrders())
}

/// The reason why an order cannot be packaged.
public struct PackagingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, for programs.
    public enum Code: Hashable, Sendable {
        /// The package would be larger than Wallet accepts.
        case tooLarge
        /// libcrypto did not sign.
        case signing
    }

    public let code: Code
    /// The error, for people: the action, the reason, the correction.
    public let message: String
    public var description: String { self.message }

    /// - Parameter message: the action, the reason, the correction.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

/// An order with the files of its package.
struct PackageFiles {
    /// The order, which names only existing files.
    var order: JSON
    var assets: AssetSet
    /// Files that were left out permanently: JSON path and name.
    var omitted: [String] = []
    /// URLs that may be fetched and whose pictures or documents are missing, each once; they were left out too.
    var missingPictures: [String] = []

    /// An upper bound on the bytes besides order.json and assets: manifest, signature and central directory.
    private static let overhead = 16_384
    private static let overheadPerAsset = 512

    /// True if their package is certainly not too large.
    var isWithinLimit: Bool {
        Self.fits(self.order.serialized.count, assets: self.assets.digests.count, bytes: self.assets.size)
    }

    fileprivate static func fits(_ order: Int, assets: Int, bytes: Int) -> Bool {
        order + bytes + assets * Self.overheadPerAsset + Self.overhead <= OrderPackage.sizeLimit
    }
}

/// Finds the files of orders: the brand's, fetched pictures, and the order's own documents.
struct PackageFileFinder: Sendable {
    private let catalog: AssetCatalog
    private let hosts: PictureHosts
    private let documents: DocumentRules
    /// The number of all of the brand's files, and their bytes.
    private let all: (count: Int, bytes: Int)

    init(_ assets: [String: Asset], _ hosts: PictureHosts, _ documents: DocumentRules) {
        self.catalog = AssetCatalog(assets)
        self.hosts = hosts
        self.documents = documents
        self.all = (assets.count, assets.values.reduce(0) { $0 + $1.entry.count })
    }

    /// Returns true if an order of this size fits with all files. Names of pictures may get a suffix, so it may double.
    func fitsWithAll(_ bytes: Int) -> Bool {
        PackageFiles.fits(2 * bytes, assets: self.all.count, bytes: self.all.bytes)
    }

    /// Finds the files that an order names. Missing ones are left out.
    ///
    /// Fetched files never make a package too large: the largest ones are then left out.
    /// - Parameter pictures: as for `PackageBuilder.build`.
    func files(of json: JSON, pictures: [String: PictureFile]) -> PackageFiles {
        let (files, shown) = self.resolve(json, pictures, refused: [])
        if files.isWithinLimit || shown.isEmpty { return files }
        // The fewest that make the others fit, found by halves: an order may have thousands.
        let largest = shown.sorted { ($0.value.size, $0.key) > ($1.value.size, $1.key) }.map(\.key)
        var (least, most) = (1, largest.count)
        while least < most {
            let middle = (least + most) / 2
            let (some, _) = self.resolve(json, pictures, refused: Set(largest.prefix(middle)))
            if some.isWithinLimit { most = middle } else { least = middle + 1 }
        }
        return self.resolve(json, pictures, refused: Set(largest.prefix(most))).files
    }

    /// - Parameter refused: URLs of existing pictures that must not be shown.
    /// - Returns: the files, and the pictures among them by URL.
    private func resolve(
        _ json: JSON, _ pictures: [String: PictureFile], refused: Set<String>
    ) -> (files: PackageFiles, shown: [String: PictureFile]) {
        guard let object = json.object else { return (PackageFiles(order: json, assets: self.catalog.set([])), [:]) }
        var indices: [Int] = []
        var found: [(place: FilePlace, url: String, picture: PictureFile)] = []
        var files = PackageFiles(order: json, assets: .none)
        var missing: [FilePlace] = []
        var renamed: [(place: FilePlace, name: String)] = []
        var missingPictures: Set<String> = []
        object.forEachFile { name, place in
            if let file = self.catalog.find(name, for: place) {
                indices += file.indices
                if file.name != name { renamed.append((place, file.name)) }
            } else if !refused.contains(name), let picture = self.fetched(name, place, pictures) {
                found.append((place, name, picture))
            } else {
                missing.append(place)
                if !refused.contains(name), self.hosts(of: place).allows(url: name) {
                    if missingPictures.insert(name).inserted { files.missingPictures.append(name) }
                } else {
                    files.omitted.append(self.describe(name, place, isTooLarge: refused.contains(name)))
                }
            }
        }
        guard !missing.isEmpty || !found.isEmpty || !renamed.isEmpty else {
            files.assets = self.catalog.set(indices)
            return (files, [:])
        }
        for (place, name) in renamed { OrderFiles.replace(place.path[...], with: name, in: &files.order) }
        for (place, _, picture) in found { OrderFiles.replace(place.path[...], with: picture.name, in: &files.order) }
        for place in missing { OrderFiles.remove(place.omittedPath, from: &files.order) }
        // An order provider is removed with its other logo, which is then not named any more.
        indices = []
        var shown: [String: PictureFile] = [:]
        let named = Dictionary(found.map { ($0.picture.name, ($0.url, $0.picture)) }) { first, _ in first }
        if let object = files.order.object {
            object.forEachFile { name, _ in
                if let (url, picture) = named[name] { shown[url] = picture }
                indices += self.catalog.family(name) ?? []
            }
        }
        files.assets = self.catalog.set(indices, pictures: shown.values.map(\.listing))
        return (files, shown)
    }

    private func hosts(of place: FilePlace) -> PictureHosts { place.isPicture ? self.hosts : self.documents.hosts }

    /// Returns the picture or the document of a URL, if the brand allows its host.
    private func fetched(_ url: String, _ place: FilePlace, _ pictures: [String: PictureFile]) -> PictureFile? {
        guard !pictures.isEmpty, self.hosts(of: place).allows(url: url) else { return nil }
        return pictures[place.isPicture ? self.hosts.identity(of: url) : self.documents.identifier(of: url)]
    }

    /// Describes an omitted file. Of a URL only the host is repeated: the rest may contain a key to the file.
    private func describe(_ name: String, _ place: FilePlace, isTooLarge: Bool) -> String {
        guard name.hasPrefix("https://") else { return "\(place.text): \(name)" }
        let (what, list) = place.isPicture ? ("picture", "pictures.hosts") : ("document", "documents.hosts")
        if isTooLarge { return "\(place.text): a URL whose \(what) makes the package too large" }
        guard let host = PictureHosts.host(of: name) else { return "\(place.text): a URL without a plain host" }
        return "\(place.text): a URL of \(host), which \(list) in brand.json does not list"
    }
}
