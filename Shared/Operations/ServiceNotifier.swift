import Glibc
import Logging
import ServiceLifecycle

/// Tells systemd, for a unit of `Type=notify`, when the service has started and when it stops.
///
/// Started means that everything that it listens on is open. Kafka, Redis and APNs are not waited for: a unit whose
/// start depends on other machines cannot be started while they are away. Source: sd_notify(3)
///
/// Owner: the service group, which stops this one first. Bounded: two datagrams.
struct ServiceNotifier: Service {
    /// The variable that names the socket.
    static let variable = "NOTIFY_SOCKET"
    /// The conditions of readiness that are waited for; a service has those that apply to it.
    static let conditions: Set<String> = [OperationsServer.listening, WorkerCondition.listener]
    /// The interval at which readiness is looked at, until the start.
    static let tick = Duration.milliseconds(50)

    /// An absolute path, or the name of an abstract socket after a `@`.
    let socket: String
    let readiness: Readiness
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Self.conditions.isDisjoint(with: self.readiness.missingConditions) {
                try await Task.sleep(for: Self.tick)
            }
            self.send("READY=1")
        }
        // Cancellation also begins the end: another service failed.
        try? await gracefulShutdown()
        self.send("STOPPING=1")
    }

    private func send(_ text: String) {
        if let reason = Self.send(text, to: self.socket) {
            self.logger.warning(
                "cannot notify systemd",
                metadata: ["socket": "\(self.socket)", "text": "\(text)", "error": "\(reason)"])
        }
    }

    /// Returns the reason why a datagram could not be sent; nil if it was.
    static func send(_ text: String, to name: String) -> String? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let room = MemoryLayout.size(ofValue: address.sun_path)
        // An abstract name begins with a zero and ends with the address; a path ends with a zero. Source: unix(7)
        let isAbstract = name.utf8.first == UInt8(ascii: "@")
        guard isAbstract || name.utf8.first == UInt8(ascii: "/"), name.utf8.count < room else {
            return "must be an absolute path or begin with @, and have at most \(room - 1) bytes"
        }
        let path = isAbstract ? [0] + name.utf8.dropFirst() : name.utf8 + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return Self.reason() }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        let sent = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                unsafe sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), pointer, length)
            }
        }
        return sent == bytes.count ? nil : Self.reason()
    }

    private static func reason() -> String { unsafe String(cString: strerror(errno)) }
}
