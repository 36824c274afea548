/// What nghttp2's callbacks write to and the session's owner reads from: open streams and events.
///
/// The callbacks only queue here; nothing is decided and nothing is sent inside them.
final class SessionLedger {
    /// One open stream. Slots are reused, so the arrays inside keep their storage where they can.
    struct Slot {
        /// 0: the slot is free. Stream identifiers of requests are odd.
        var stream: Int32 = 0
        var tag = 0
        var requestBody: [UInt8] = []
        var sentBytes = 0
        var status: Int?
        var headers: [HTTP2Header] = []
        var body: [UInt8] = []
        var isComplete = false
        /// The fields that come now stand behind the body.
        var isTrailer = false
    }

    private(set) var slots: [Slot] = []
    private var free: [Int] = []
    var events: [HTTP2Event] = []
    private let keptHeaders: [[UInt8]]
    private let keptBytes: Int

    init(keptHeaders: [String], keptBytes: Int) {
        self.keptHeaders = keptHeaders.map { Array($0.utf8) }
        self.keptBytes = keptBytes
    }

    var openStreams: Int { self.slots.count - self.free.count }

    /// Takes a slot before the request is submitted, because nghttp2 wants its number then.
    func reserve(tag: Int, requestBody: [UInt8]) -> Int {
        let index: Int
        if let reused = self.free.popLast() {
            index = reused
        } else {
            index = self.slots.count
            self.slots.append(Slot())
        }
        self.slots[index].tag = tag
        self.slots[index].requestBody = requestBody
        return index
    }

    func opened(_ index: Int, stream: Int32) { self.slots[index].stream = stream }

    /// Gives back a slot whose request was not taken.
    func cancelReservation(_ index: Int) {
        self.slots[index] = Slot()
        self.free.append(index)
    }

    /// Finds a stream that nghttp2 has not opened yet and so has no user data for; rare, hence the search.
    func slot(of stream: Int32) -> Int? { self.slots.firstIndex { $0.stream == stream } }

    func ended(_ index: Int, stream: Int32, code: UInt32) {
        guard self.slots.indices.contains(index), self.slots[index].stream == stream else { return }
        let slot = self.slots[index]
        self.events.append(
            .streamEnded(
                HTTP2StreamEnd(
                    stream: stream, tag: slot.tag, errorCode: HTTP2ErrorCode(rawValue: code), status: slot.status,
                    headers: slot.headers, body: slot.body, isComplete: slot.isComplete)))
        self.slots[index] = Slot()
        self.free.append(index)
    }

    /// A header block begins; after a final status it is the trailers', which are not kept.
    func headersBegin(_ index: Int) {
        guard self.slots.indices.contains(index) else { return }
        self.slots[index].isTrailer = (self.slots[index].status ?? 0) >= 200
    }

    func header(_ index: Int, name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard self.slots.indices.contains(index) else { return }
        if unsafe name.elementsEqual(":status".utf8) {
            // A final response follows an interim one (RFC 9110 §15.2) and replaces it.
            self.slots[index].headers.removeAll(keepingCapacity: true)
            self.slots[index].status = unsafe Int(String(decoding: value, as: UTF8.self))
            return
        }
        guard !self.slots[index].isTrailer, self.slots[index].headers.count < 2 * self.keptHeaders.count else { return }
        guard let kept = self.keptHeaders.first(where: { unsafe name.elementsEqual($0) }) else { return }
        let clipped = unsafe value.prefix(self.keptBytes)
        let text = unsafe String(decoding: clipped, as: UTF8.self)
        self.slots[index].headers.append(HTTP2Header(name: String(decoding: kept, as: UTF8.self), value: text))
    }

    func data(_ index: Int, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard self.slots.indices.contains(index) else { return }
        let room = self.keptBytes - self.slots[index].body.count
        if room > 0 { unsafe self.slots[index].body.append(contentsOf: bytes.prefix(room)) }
    }

    func completed(_ index: Int) {
        guard self.slots.indices.contains(index) else { return }
        self.slots[index].isComplete = true
    }

    /// Copies the next part of a request's body to where nghttp2 frames it.
    ///
    /// - Returns: how many bytes, and whether those were the last; nil when the stream is gone.
    func readBody(_ index: Int, into target: UnsafeMutableBufferPointer<UInt8>) -> (count: Int, isLast: Bool)? {
        guard self.slots.indices.contains(index), self.slots[index].stream != 0 else { return nil }
        let start = self.slots[index].sentBytes
        let rest = self.slots[index].requestBody[start...]
        let count = min(target.count, rest.count)
        _ = unsafe target.update(fromContentsOf: rest.prefix(count))
        self.slots[index].sentBytes = start + count
        return (count, count == rest.count)
    }
}
