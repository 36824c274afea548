/// The reason why a brand cannot be loaded, in a sentence for the person who maintains its directory.
public struct BrandError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, for programs.
    public enum Code: Hashable, Sendable {
        /// A file or directory is missing, unreadable, too large or not a plain file.
        case file
        /// brand.json or the address of the web service has an invalid value.
        case configuration
        /// Certificate, key or intermediate do not meet the requirements.
        case certificate
        /// A file in the assets cannot go into a package.
        case asset
    }

    public let code: Code
    /// The error, for people: the file, the place in it, the correction.
    public let message: String
    public var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
