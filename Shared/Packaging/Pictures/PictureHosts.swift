public import Model

/// The hosts that a brand's pictures, or its orders' own documents, may be fetched from.
///
/// A host is given in full (`cdn.example.com`) or as all hosts below one (`*.images.example.com`, which is not
/// `images.example.com` itself), with a port if it is not 443 (`cdn.example.com:8443`).
public struct PictureHosts: Hashable, Sendable {
    private struct Pattern: Hashable, Sendable {
        /// The whole name, or the suffix of names, with its dot.
        let name: String
        let isSuffix: Bool
        let port: Int
    }

    private let patterns: [Pattern]
    /// The part of the query that does not distinguish pictures.
    let ignoredQuery: IgnoredQuery
    /// The colour on which pictures are made right; nil leaves them as they are.
    public var background: PictureFit.Colour?

    /// No host: no URL is fetched.
    public static let none = PictureHosts(patterns: [], ignoredQuery: .none)

    /// The most hosts of a brand.
    static let countLimit = 100
    /// The longest URL that is fetched, in bytes: it becomes a part of Redis keys.
    private static let urlLimit = 2048

    public var isEmpty: Bool { self.patterns.isEmpty }

    /// The hosts that are given in full, with their ports.
    public var named: [(name: String, port: Int)] {
        self.patterns.filter { !$0.isSuffix }.map { ($0.name, $0.port) }
    }

    private init(patterns: [Pattern], ignoredQuery: IgnoredQuery) {
        self.patterns = patterns
        self.ignoredQuery = ignoredQuery
    }

    /// - Throws: `PictureHostFault` about the first text that is not a host.
    public init(_ texts: [String], ignoring ignoredQuery: IgnoredQuery = .none) throws(PictureHostFault) {
        guard texts.count <= Self.countLimit else {
            throw PictureHostFault(message: "more than \(Self.countLimit) hosts")
        }
        var patterns: [Pattern] = []
        for text in texts {
            guard let pattern = Self.pattern(text) else {
                throw PictureHostFault(
                    message: "\"\(text)\" must be a host such as cdn.example.com, *.images.example.com or "
                        + "cdn.example.com:8443, without scheme and path")
            }
            patterns.append(pattern)
        }
        self.patterns = patterns
        self.ignoredQuery = ignoredQuery
    }

    private static func pattern(_ text: String) -> Pattern? {
        let isSuffix = text.hasPrefix("*.")
        guard let (host, port) = Self.hostAndPort(isSuffix ? text.dropFirst(2) : text[...]) else { return nil }
        // All of `.com` is never meant to be allowed.
        guard !isSuffix || host.contains(".") else { return nil }
        return Pattern(name: isSuffix ? "." + host : host, isSuffix: isSuffix, port: port)
    }

    /// Returns true if a host may be asked.
    ///
    /// - Parameter host: the name as it is looked up; the case does not matter.
    public func allows(host: String, port: Int) -> Bool {
        let host = host.lowercased()
        return self.patterns.contains { pattern in
            guard pattern.port == port else { return false }
            return pattern.isSuffix
                ? host.hasSuffix(pattern.name) && host.utf8.count > pattern.name.utf8.count : host == pattern.name
        }
    }

    /// Returns true if a URL names an allowed host; false for anything else.
    ///
    /// The fetcher checks again with the host that it connects to.
    public func allows(url: String) -> Bool {
        guard !self.isEmpty, let (host, port) = Self.place(of: url) else { return false }
        return self.allows(host: host, port: port)
    }

    /// Returns the URLs of pictures, or else of own documents, in an order that may be fetched, each once, in the order
    /// of their places.
    public func urls(in orderJSON: JSON, ofPictures: Bool = true) -> [String] {
        guard !self.isEmpty, let order = orderJSON.object else { return [] }
        var urls: [String] = []
        var seen: Set<String> = []
        order.forEachFile { name, place in
            if place.isPicture == ofPictures, self.allows(url: name), seen.insert(name).inserted { urls.append(name) }
        }
        return urls
    }

    /// Returns the place at which an order shows a picture, nil if it does not; `square` if there is more than one.
    ///
    /// - Parameter identity: that of the picture's URL.
    public func place(of identity: String, in orderJSON: JSON) -> PictureFit.Place? {
        var places: Set<PictureFit.Place> = []
        orderJSON.object?.forEachFile { name, place in
            guard place.isPicture, self.identity(of: name) == identity else { return }
            places.insert(place.path.contains(.member("orderProvider")) ? .trackingLogo : .square)
        }
        return places.count > 1 ? .square : places.first
    }

    /// Returns the host of a URL, with a port that is not 443, in the form of the list; nil for anything unusual.
    static func host(of url: String) -> String? {
        Self.place(of: url).map { $0.port == 443 ? $0.host : "\($0.host):\($0.port)" }
    }

    static func place(of url: String) -> (host: String, port: Int)? {
        guard url.hasPrefix("https://"), url.utf8.count <= Self.urlLimit,
            url.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return Self.hostAndPort(url.dropFirst(8).prefix { !"/?#\\".contains($0) })
    }

    /// Splits a DNS name and a port; nil for anything else, also for user names and addresses in brackets.
    ///
    /// Source: RFC 1123 §2.1
    public static func hostAndPort(_ text: Substring) -> (host: String, port: Int)? {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let host = parts.first, !host.isEmpty, host.utf8.count <= 253 else { return nil }
        for label in host.split(separator: ".", omittingEmptySubsequences: false) {
            guard (1...63).contains(label.utf8.count), label.utf8.allSatisfy(Self.isNameCharacter) else { return nil }
        }
        guard parts.count == 2 else { return (host.lowercased(), 443) }
        guard parts[1].utf8.count <= 5, parts[1].utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 }),
            let port = Int(parts[1]), (1...65535).contains(port)
        else { return nil }
        return (host.lowercased(), port)
    }

    private static func isNameCharacter(_ byte: UInt8) -> Bool {
        (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: "_")
    }
}

/// An error in a list of hosts.
public struct PictureHostFault: Error {
    public let message: String
}
