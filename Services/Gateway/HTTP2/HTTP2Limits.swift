import NIOCore
import NIOHPACK
import NIOHTTP2

/// Limits for an HTTP/2 connection.
///
/// One connection is one client, or one proxy with many: the numbers leave room for the latter.
struct HTTP2Limits: Sendable {
    /// Concurrent requests, announced to the client.
    var streams = 100
    /// Bytes of a request's fields, as HPACK counts them. More ends the connection: its compression state is lost.
    /// Source: RFC 9113 §6.5.2, §10.5.1
    var headerList = HeadLimits().head
    /// Bytes of all bodies whose requests are not being processed yet. One body may have `RequestLimits.body`.
    var bodies = 512 << 10
    /// Bytes of answers not yet read by the client after which no further request is processed.
    var unwritten = 1 << 20
    /// Bytes that a GET counts as until its answer exists; a package has 20 kB to a few hundred.
    var estimate = 32 << 10
    /// The longest time for a request to arrive, and for a connection to be without one.
    var requestLimit = RequestLimits.idle
    /// The time that a request may take to arrive, if it is less than `requestLimit`.
    var arrivalLimit = RequestLimits.idle
    /// The longest time for a client to read an answer.
    var answerLimit = RequestLimits.answer
    /// The time for which a connection that must end stays open for requests in flight.
    var lingering = TimeAmount.seconds(2)

    /// The protections of swift-nio-http2. A connection that exceeds them is ended by GOAWAY.
    ///
    /// Source: RFC 9113 §10.5; CVE-2023-44487 (rapid reset), CVE-2019-9512 to 9518 (floods), CVE-2024-27316
    /// (CONTINUATION)
    var connection: NIOHTTP2Handler.ConnectionConfiguration {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: self.streams),
            HTTP2Setting(parameter: .maxHeaderListSize, value: self.headerList),
            HTTP2Setting(parameter: .initialWindowSize, value: RequestLimits.body),
        ]
        connection.maximumSequentialEmptyDataFrames = 1
        connection.maximumSequentialContinuationFrames = 4
        // Answers to PING and SETTINGS that a client does not read.
        connection.maximumBufferedControlFrames = 256
        connection.maximumConnectionGlitches = 100
        connection.controlFrameRateLimit.maximumCount = 100
        return connection
    }

    /// The protections per kind of frame that belongs to a stream.
    var stream: NIOHTTP2Handler.StreamConfiguration {
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = 100
        stream.streamErrorRateLimit.maximumCount = 100
        return stream
    }
}
