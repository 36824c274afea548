import NIOCore
import NIOHPACK
import NIOHTTP2

/// What an HTTP/2 connection may cost.
///
/// One connection is one client, or one proxy with many: the numbers leave room for the latter.
struct HTTP2Limits: Sendable {
    /// Requests at a time, announced to the client.
    var streams = 100
    /// Bytes of a request's fields, as HPACK counts them. More ends the connection: its compression state is lost.
    /// Source: RFC 9113 §6.5.2, §10.5.1
    var headerList = HeadLimits().head
    /// Bytes of all bodies whose requests are not worked on yet. One body may have `ConnectionHandler.bodyLimit`.
    var bodies = 512 << 10
    /// Bytes of answers that the client has not taken yet, behind which no further request is worked on.
    var unwritten = 1 << 20
    /// Bytes that a GET counts with until its answer is there; a package has 20 kB to some hundred.
    var estimate = 32 << 10
    /// How long a request may take to arrive, and how long a connection may be without one.
    var requestLimit = GatewayServer.idleLimit
    /// The time that a request may take to arrive, if it is less than that.
    var arrivalLimit = GatewayServer.idleLimit
    /// How long a client may take to read an answer.
    var answerLimit = ConnectionHandler.answerLimit
    /// How long a connection that was told to end stays for requests that were on their way.
    var lingering = TimeAmount.seconds(2)

    /// The protections of swift-nio-http2. A connection that goes beyond is ended by GOAWAY.
    ///
    /// Source: RFC 9113 §10.5; CVE-2023-44487 (rapid reset), CVE-2019-9512 to 9518 (floods), CVE-2024-27316
    /// (CONTINUATION)
    var connection: NIOHTTP2Handler.ConnectionConfiguration {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: self.streams),
            HTTP2Setting(parameter: .maxHeaderListSize, value: self.headerList),
            HTTP2Setting(parameter: .initialWindowSize, value: ConnectionHandler.bodyLimit),
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
