import Foundation
import Glibc
import Synchronization

/// A TCP port of 127.0.0.1 that belongs to this object until `release()` or the end of its lifetime, with or without a
/// server on it.
///
/// Owner: this object holds a socket that is bound to the port and never listens. While there is no server, connections
/// are refused, and the system gives the port neither to outgoing connections nor to a process that asks for any port.
/// A server that sets SO_REUSEADDR (redis-server, `openssl s_server`, Python's, librdkafka's broker, ours) can bind to
/// it, stop and bind again. `init()` sets the option on our socket only after binding it, so that it never gets a port
/// that another object reserves.
/// Source: Linux net/ipv4/inet_connection_sock.c, `inet_csk_bind_conflict`; inet_hashtables.c, `__inet_hash_connect`
///
/// `init()` chooses a port outside the range of outgoing connections, so that a port given to a program that outlives
/// this process is not taken while that program is down.
///
/// Code that uses only the number, and not this object, calls `release()` at its end: without a later use,
/// Swift may destroy this object before its scope ends.
public final class ReservedPort: Sendable {
    /// The reason why a port could not be reserved.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// The port's number.
    public let number: Int
    private let socket: Mutex<Descriptor?>

    /// Reserves a port that is not in use.
    public init() throws {
        for _ in 0..<1000 {
            let socket = try Self.makeSocket()
            guard Self.bind(socket, Self.candidates.randomElement() ?? 0) == 0 else { continue }
            try Self.allowReuse(socket)
            self.number = try Self.number(of: socket)
            self.socket = Mutex(socket)
            return
        }
        throw Failure(description: "reserving a port of 127.0.0.1: none of 1000 is free")
    }

    /// Reserves the given port. It may have been in use a moment ago, but no process may listen on it.
    public init(_ number: UInt16) throws {
        let socket = try Self.makeSocket()
        try Self.allowReuse(socket)
        let code = Self.bind(socket, number)
        guard code == 0 else { throw Failure(description: "reserving port \(number) of 127.0.0.1: error \(code)") }
        self.number = try Self.number(of: socket)
        self.socket = Mutex(socket)
    }

    /// Releases the port; calling it again is harmless.
    public func release() { self.socket.withLock { $0 = nil } }

    /// Ports below or above the range of outgoing connections; 0 (any) if that leaves too few.
    ///
    /// Source: ip(7), `ip_local_port_range`
    private static let candidates: ClosedRange<UInt16> = {
        let text = (try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)) ?? ""
        let bounds = text.split(whereSeparator: \.isWhitespace).compactMap { UInt16($0) }
        guard bounds.count == 2 else { return 0...0 }
        if bounds[0] >= 12_000 { return 10_000...(bounds[0] - 1) }
        if bounds[1] <= 63_000 { return (bounds[1] + 1)...65_535 }
        return 0...0
    }()

    private static func makeSocket() throws -> Descriptor {
        let number = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw Failure(description: "making a socket: error \(errno)") }
        return Descriptor(number)
    }

    private static func allowReuse(_ socket: Descriptor) throws {
        var on: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &on, size) == 0 else {
            throw Failure(description: "setting SO_REUSEADDR: error \(errno)")
        }
    }

    /// - Returns: 0, or the error.
    private static func bind(_ socket: Descriptor, _ port: UInt16) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe Glibc.bind(socket.number, $0, size)
            }
        }
        return code == 0 ? 0 : errno
    }

    private static func number(of socket: Descriptor) throws -> Int {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = unsafe withUnsafeMutablePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(socket.number, $0, &size)
            }
        }
        guard code == 0 else { throw Failure(description: "asking a socket for its port: error \(errno)") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
