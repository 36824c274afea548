import Redis

/// What is known about a picture.
public struct PictureRecord: Hashable, Sendable {
    /// The picture that was fetched last; nil if none ever was.
    public var content: Content?
    /// `ETag` of that, to ask whether it still holds.
    public var entityTag: String?
    /// `Last-Modified` of that.
    public var lastModified: String?
    /// When the server said last that this is the picture, UNIX seconds; 0 for never.
    public var checkedEpochSeconds: Int64 = 0
    /// Failures since then.
    public var attempts: Int64 = 0
    /// When it was given up: not to be asked for again before that, UNIX seconds; 0 if it was not.
    public var restsUntilEpochSeconds: Int64 = 0

    public init() {}

    /// A picture as packages describe it.
    public struct Content: Hashable, Sendable {
        /// In packages.
        public let name: String
        /// SHA-256 of the picture.
        public let contentDigest: String
        /// Under which its ready ZIP entry stands.
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
    case name, content, asset, checksum, size, etag, modified, checked, attempts, rests
}

extension PictureRecord {
    /// Reads the fields in the order of `PictureField`; nil if there is no such hash.
    ///
    /// What is damaged counts as not there: it is fetched again.
    init?(_ values: [RedisValue]) {
        guard values.count == PictureField.allCases.count, let checked = values[7].integer,
            let attempts = values[8].integer, let rests = values[9].integer
        else { return nil }
        self.checkedEpochSeconds = checked
        self.attempts = min(max(attempts, 0), 1000)
        self.restsUntilEpochSeconds = rests
        guard let name = values[0].text, let content = values[1].text, let asset = values[2].text,
            let checksum = values[3].integer, let size = values[4].integer
        else { return }
        self.content = Content(name: name, contentDigest: content, asset: asset, checksum: checksum, size: size)
        self.entityTag = values[5].text
        self.lastModified = values[6].text
    }

    /// Names and values for one HSET.
    var fields: [RedisArgument] {
        var fields: [(PictureField, RedisArgument)] = [
            (.checked, .integer(self.checkedEpochSeconds)), (.attempts, .integer(self.attempts)),
            (.rests, .integer(self.restsUntilEpochSeconds)),
        ]
        if let content = self.content {
            fields += [
                (.name, .string(content.name)), (.content, .string(content.contentDigest)),
                (.asset, .string(content.asset)), (.checksum, .integer(content.checksum)),
                (.size, .integer(content.size)),
            ]
            if let tag = self.entityTag { fields.append((.etag, .string(tag))) }
            if let date = self.lastModified { fields.append((.modified, .string(date))) }
        }
        return fields.flatMap { [.string($0.0.rawValue), $0.1] }
    }
}
