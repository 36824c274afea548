import NIOCore

/// The limits of one request, whatever the version of HTTP.
enum RequestLimits {
    /// Most bytes of a body. A registration has a few hundred, a log a few thousand.
    static let body = 64 << 10
    /// The longest time for a connection to stay without a complete request, or without any input or output.
    static let idle = TimeAmount.seconds(75)
    /// The longest time for a client to read an answer. The largest package is 5 MB, and a phone may be on a train.
    static let answer = TimeAmount.minutes(5)
}
