import Glibc

/// One file descriptor, closed with its last reference and never inherited by a child except through `spawn`.
final class Descriptor: Sendable {
    /// Valid for the lifetime of this object.
    let number: Int32

    /// Takes over an open descriptor.
    init(_ number: Int32) { self.number = number }
    deinit { close(self.number) }

    /// Makes a socket pair, because Swift does not import `pipe2` and close-on-exec must be set from the first moment:
    /// another thread may be starting a child, which would then hold our end open.
    static func pipe() throws -> (reading: Descriptor, writing: Descriptor) {
        var ends: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw ChildProcess.Failure(description: "making a pipe: error \(errno)")
        }
        return (Descriptor(ends[0]), Descriptor(ends[1]))
    }

    /// Opens a file; only its user can read a new one.
    static func open(_ path: String, _ flags: Int32) throws -> Descriptor {
        let number = unsafe Glibc.open(path, flags | O_CLOEXEC, 0o600)
        guard number >= 0 else { throw ChildProcess.Failure(description: "opening \(path): error \(errno)") }
        return Descriptor(number)
    }

    /// Returns the next bytes; nil at the end of the stream and after an error.
    func read(upTo limit: Int) -> [UInt8]? {
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            var result: Int
            repeat {
                result = unsafe Glibc.read(self.number, buffer.baseAddress, limit)
            } while result < 0 && errno == EINTR
            count = max(0, result)
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// Writes the bytes. Bytes that cannot be written are dropped, since no reader is left.
    func write(_ bytes: [UInt8]) {
        _ = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(self.number, $0.baseAddress, $0.count) }
    }
}
