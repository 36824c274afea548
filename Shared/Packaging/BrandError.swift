/// Why a brand cannot be loaded, in a sentence for the person who keeps its directory.
public struct BrandError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong, for programs.
    public enum Code: Hashable, Sendable {
        /// A file or directory is missing, unreadable, too large or not a plain file.
        case file
        /// brand.json or the address of the web service says something wrong.
        case configuration
        /// Certificate, key or intermediate do not do what they must.
        case certificate
        /// A file in the assets cannot go into a package.
        case asset
    }

    public let code: Code
    /// What is wrong, for people: the file, the place in it, what to do.
    public let message: String
    public var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
