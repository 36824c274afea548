/// The memory that nghttp2's callbacks write to and the session's owner reads from: open streams and events.
///
/// The callbacks only record here; they decide nothing and send nothing. The session allocates the ledger's memory
/// itself, so that a callback finds it without reference counting.
struct SessionLedger {
    /// One open stream. Slots are reused.
    struct Slot {
        /// 0 if the slot is free or only reserved. Stream identifiers of requests are odd.
        var stream: Int32 = 0
        var tag = 0
        var requestBody: [UInt8] = []
        var sentBytes = 0
        /// 0 until there is one.
        var status = 0
        var headers: [HTTP2Header] = []
        var body: [UInt8] = []
        var isComplete = false
        /// True if the fields from now on are trailers.
        var isTrailer = false
        /// True if we reset the stream and nghttp2 has not reported its end yet.
        var isReset = false
    }

    /// A response header that is kept.
    private struct KeptName {
        let name: String
        let bytes: [UInt8]
    }

    var events: [HTTP2Event] = []
    private(set) var slots: [Slot] = []
    private var free: [Int] = []
    /// The slot of the header block being received: no other frame comes between its fields (RFC 9113 §4.3).
    private var current = -1
    private let keptNames: [KeptName]
    private let keptBytes: Int

    init(keptHeaders: [String], keptBytes: Int) {
        self.keptNames = keptHeaders.map { KeptName(name: $0, bytes: Array($0.utf8)) }
        self.keptBytes = keptBytes
    }

    var openStreams: Int { self.slots.count - self.free.count }

    /// Reserves a slot before the request is submitted, because nghttp2 needs the slot's number for that.
    mutating func reserve(tag: Int, requestBody: [UInt8]) -> Int {
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

    mutating func opened(_ index: Int, stream: Int32) { self.slots[index].stream = stream }

    /// Releases a slot whose request was not accepted.
    mutating func cancelReservation(_ index: Int) {
        self.slots[index] = Slot()
        self.free.append(index)
    }

    /// Finds the slot of a stream that nghttp2 may not have opened yet, and so has no user data for. Rare, hence the
    /// linear search.
    func slot(of stream: Int32) -> Int? { self.slots.firstIndex { $0.stream == stream } }

    /// - Returns: false if the stream has ended or was already reset.
    mutating func markReset(_ stream: Int32) -> Bool {
        guard let index = self.slot(of: stream), !self.slots[index].isReset else { return false }
        self.slots[index].isReset = true
        return true
    }

    mutating func ended(_ index: Int, stream: Int32, code: UInt32) {
        guard self.slots.indices.contains(index), self.slots[index].stream == stream else { return }
        var slot = Slot()
        swap(&slot, &self.slots[index])
        self.free.append(index)
        self.events.append(
            .streamEnded(
                HTTP2StreamEnd(
                    stream: stream, tag: slot.tag, errorCode: HTTP2ErrorCode(rawValue: code),
                    status: slot.status == 0 ? nil : slot.status, headers: slot.headers, body: slot.body,
                    isComplete: slot.isComplete)))
    }

    /// Begins a header block; after a final status it holds trailers, which are not kept.
    mutating func headersBegin(_ index: Int) {
        self.current = index
        guard self.slots.indices.contains(index) else { return }
        self.slots[index].isTrailer = self.slots[index].status >= 200
    }

    /// Adds a field of the block that has begun.
    mutating func header(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        let index = self.current
        guard self.slots.indices.contains(index), name.count > 0 else { return }
        if unsafe name[0] == UInt8(ascii: ":") {
            // A final response follows an interim one (RFC 9110 §15.2) and replaces it. nghttp2 has checked that this
            // is the only pseudo-header field of a response, and that it has three digits (RFC 9113 §8.3.2).
            self.slots[index].headers.removeAll(keepingCapacity: true)
            self.slots[index].status = unsafe value.reduce(0) { $0 &* 10 &+ Int($1 &- UInt8(ascii: "0")) }
            return
        }
        guard let kept = unsafe self.kept(name) else { return }
        guard !self.slots[index].isTrailer, self.slots[index].headers.count < 2 * self.keptNames.count else { return }
        let clipped = unsafe value.prefix(self.keptBytes)
        let text = unsafe String(decoding: clipped, as: UTF8.self)
        self.slots[index].headers.append(HTTP2Header(name: self.keptNames[kept].name, value: text))
    }

    private func kept(_ name: UnsafeBufferPointer<UInt8>) -> Int? {
        for index in self.keptNames.indices where self.keptNames[index].bytes.count == name.count {
            if unsafe name.elementsEqual(self.keptNames[index].bytes) { return index }
        }
        return nil
    }

    mutating func data(_ index: Int, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard self.slots.indices.contains(index) else { return }
        let room = self.keptBytes - self.slots[index].body.count
        if room > 0 { unsafe self.slots[index].body.append(contentsOf: bytes.prefix(room)) }
    }

    mutating func completed(_ index: Int) {
        guard self.slots.indices.contains(index) else { return }
        self.slots[index].isComplete = true
    }

    /// Copies the next part of a request's body into nghttp2's frame buffer.
    ///
    /// - Returns: the number of bytes, and true if those were the last; nil if the stream is gone.
    mutating func readBody(
        _ index: Int, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> (count: Int, isLast: Bool)? {
        guard self.slots.indices.contains(index), self.slots[index].stream != 0 else { return nil }
        let start = self.slots[index].sentBytes
        let (count, isLast) = unsafe self.slots[index].requestBody.withUnsafeBytes { body in
            let count = min(target.count, body.count - start)
            unsafe UnsafeMutableRawBufferPointer(target).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: body[start..<start + count]))
            return (count, start + count == body.count)
        }
        self.slots[index].sentBytes = start + count
        return (count, isLast)
    }
}
