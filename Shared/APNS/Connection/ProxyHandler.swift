import NIOCore

/// Asks an HTTP proxy for a tunnel; once it is established, removes itself from the pipeline.
///
/// Lives on the client's event loop. The caller that waits for the connection enforces the deadline.
final class ProxyHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let proxy: APNSProxy
    private let endpoint: APNSEndpoint
    private var answer = ProxyAnswer()
    private var onEnd: ((Result<any Channel, APNSError>) -> Void)?

    /// - Parameter onEnd: called once, with the channel if the tunnel is established.
    init(proxy: APNSProxy, endpoint: APNSEndpoint, onEnd: @escaping (Result<any Channel, APNSError>) -> Void) {
        self.proxy = proxy
        self.endpoint = endpoint
        self.onEnd = onEnd
    }

    func handlerAdded(context: ChannelHandlerContext) {
        var request = "CONNECT \(self.endpoint) HTTP/1.1\r\nhost: \(self.endpoint)\r\n"
        if let credential = self.proxy.basicCredential {
            request += "proxy-authorization: Basic \(base64(Array(credential.utf8)))\r\n"
        }
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: request + "\r\n")), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.onEnd != nil else { return context.fireChannelRead(data) }
        switch self.answer.receive(self.unwrapInboundIn(data).readableBytesView) {
        case .incomplete: break
        case .open:
            let channel = context.channel
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
            self.end(.success(channel))
        case .refused(let status?): self.fail("the proxy answered \(status)")
        case .refused(nil): self.fail("the proxy does not speak HTTP/1")
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { self.fail("\(error)") }

    func channelInactive(context: ChannelHandlerContext) {
        self.fail("the proxy closed the connection")
        context.fireChannelInactive()
    }

    private func fail(_ reason: String) {
        self.end(
            .failure(APNSError(.connecting, "connecting to \(self.endpoint) through proxy \(self.proxy): \(reason)")))
    }

    private func end(_ result: Result<any Channel, APNSError>) {
        let onEnd = self.onEnd
        self.onEnd = nil
        onEnd?(result)
    }
}

/// Source: RFC 4648 §4
private func base64(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = bytes[start..<min(start + 3, bytes.count)]
        let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
        for digit in 0..<4 {
            let value = Int(bits >> UInt32(18 - 6 * digit) & 0x3F)
            text.append(digit <= group.count ? alphabet[value] : UInt8(ascii: "="))
        }
    }
    return String(decoding: text, as: UTF8.self)
}

/// Parses a proxy's answer to CONNECT, in pieces of any size. A value.
///
/// Source: RFC 9112 §4, RFC 9110 §9.3.6: any 2xx, and the tunnel begins after the empty line
struct ProxyAnswer {
    /// The result so far.
    enum Verdict: Hashable {
        case incomplete
        case open
        /// The status, or nil if the answer is not HTTP.
        case refused(status: Int?)
    }

    /// The maximum length of the header block, in bytes.
    static let most = 8_192

    private var bytes: [UInt8] = []

    /// Processes the next bytes.
    ///
    /// - Returns: `.refused(nil)` also if something follows the empty line, because the endpoint may not send before
    ///   our ClientHello.
    mutating func receive(_ more: some Sequence<UInt8>) -> Verdict {
        for byte in more {
            guard !self.isWhole, self.bytes.count < Self.most else { return .refused(status: nil) }
            self.bytes.append(byte)
        }
        let start = Array("HTTP/1.".utf8)
        guard self.bytes.prefix(start.count).elementsEqual(start.prefix(self.bytes.count)) else {
            return .refused(status: nil)
        }
        guard self.isWhole else { return .incomplete }
        // `HTTP/1.x SSS`, followed by a space or the end of the line.
        let digits = self.bytes.dropFirst(9).prefix(3)
        guard self.bytes.dropFirst(8).first == UInt8(ascii: " "), digits.count == 3,
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            [UInt8(ascii: " "), UInt8(ascii: "\r")].contains(self.bytes.dropFirst(12).first),
            let status = Int(String(decoding: digits, as: UTF8.self))
        else { return .refused(status: nil) }
        return (200...299).contains(status) ? .open : .refused(status: status)
    }

    private var isWhole: Bool { self.bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) }
}
