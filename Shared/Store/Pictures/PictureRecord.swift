import Redis

/// The stored data about a picture.
public struct PictureRecord: Hashable, Sendable {
    /// The picture that was fetched last; nil if none ever was.
    public var content: Content?
    /// Its `ETag`, for conditional requests.
    public var entityTag: String?
    /// Its `Last-Modified`.
    public var lastModified: String?
    /// The time when the server last confirmed that this is the picture, UNIX seconds; 0 for never.
    public var checkedEpochSeconds: Int64 = 0
    /// Failures since then.
    public var attempts: Int64 = 0
    /// The time before which a picture that was given up is not requested again, UNIX seconds; 0 if it was not given
    /// up.
    public var restsUntilEpochSeconds: Int64 = 0
    /// The reason of the last failure, for people; nil since the picture was fetched.
    public var failure: String?
    /// SHA-256 of the file that was fetched, and the form that it was given; nil for a picture that is as it was
    /// fetched.
    public var form: (source: String, name: String)? {
        get { self.source.flatMap { source in self.formName.map { (source, $0) } } }
        set { (self.source, self.formName) = (newValue?.source, newValue?.name) }
    }
    private var source: String?
    private var formName: String?

    public init() {}

    /// A picture as described in packages.
    public struct Content: Hashable, Sendable {
        /// The file name in packages.
        public let name: String
        /// SHA-256 of the picture.
        public let contentDigest: String
        /// The digest under which its ready ZIP entry is stored.
        public let asset: String
        /// CRC-32 of the picture.
        public let checksum: Int64
        /// Bytes of the picture.
        public let size: Int64

        public init(name: String, contentDigest: String, asset: String, checksum: Int64, size: Int64) {
            self.name = name
            self.contentDigest = contentDigest
            self.asset = asset
            self.checksum = checksum
            self.size = size
        }
    }
}

/// The fields of a picture's hash.
enum PictureField: String, CaseIterable {
    case name, content, asset, checksum, size, etag, modified, checked, attempts, rests, failure, source, form
}

extension PictureRecord {
    /// Parses the fields in the order of `PictureField`; nil if there is no such hash.
    ///
    /// Damaged values count as missing: the picture is fetched again.
    init?(_ values: [RedisValue]) {
        guard values.count == PictureField.allCases.count, let checked = values[7].integer,
            let attempts = values[8].integer, let rests = values[9].integer
        else { return nil }
        self.checkedEpochSeconds = checked
        self.attempts = min(max(attempts, 0), 1000)
        self.restsUntilEpochSeconds = rests
        self.failure = values[10].text
        guard let name = values[0].text, let content = values[1].text, let asset = values[2].text,
            let checksum = values[3].integer, let size = values[4].integer
        else { return }
        self.content = Content(name: name, contentDigest: content, asset: asset, checksum: checksum, size: size)
        self.entityTag = values[5].text
        self.lastModified = values[6].text
        (self.source, self.formName) = (values[11].text, values[12].text)
    }

    /// Names and values for one HSET.
    var fields: [RedisArgument] {
        var fields: [(PictureField, RedisArgument)] = [
            (.checked, .integer(self.checkedEpochSeconds)), (.attempts, .integer(self.attempts)),
            (.rests, .integer(self.restsUntilEpochSeconds)),
        ]
        if let failure = self.failure { fields.append((.failure, .string(failure))) }
        if let content = self.content {
            fields += [
                (.name, .string(content.name)), (.content, .string(content.contentDigest)),
                (.asset, .string(content.asset)), (.checksum, .integer(content.checksum)),
                (.size, .integer(content.size)),
            ]
            if let tag = self.entityTag { fields.append((.etag, .string(tag))) }
            if let date = self.lastModified { fields.append((.modified, .string(date))) }
            if let (source, name) = self.form { fields += [(.source, .string(source)), (.form, .string(name))] }
        }
        return fields.flatMap { [.string($0.0.rawValue), $0.1] }
    }
}
