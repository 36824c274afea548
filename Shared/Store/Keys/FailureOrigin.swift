/// The party at fault for a failure, and the work that it concerns. It alone decides if the same work is tried again.
public struct FailureOrigin: Hashable, Sendable {
    public enum Upstream: String, Hashable, Sendable {
        case redis, kafka
        /// The files of the order's brand.
        case brand
        /// The data of the order itself.
        case order
    }
    public enum Scope: Hashable, Sendable {
        /// One order.
        case order
        /// The orders of one partition of `waybill.orders`.
        case partition
        /// All orders that need the upstream.
        case everything
    }

    public let upstream: Upstream
    public let scope: Scope

    public init(_ upstream: Upstream, _ scope: Scope) {
        self.upstream = upstream
        self.scope = scope
    }

    /// True if other orders can be worked on.
    public var isOfOneOrder: Bool { self.scope != .everything }
    /// True if the same work may succeed later, without a change of the order.
    public var isRetriable: Bool { self.upstream != .order }
    /// True if waiting may be all that it takes.
    public var passes: Bool { self.upstream == .redis || self.upstream == .kafka }
}

/// An error that names its upstream.
public protocol UpstreamFailure: Error, CustomStringConvertible {
    var origin: FailureOrigin { get }
}
