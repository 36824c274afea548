import Glibc
public import NIOCore
public import NIOPosix

/// The reason why a server cannot listen, with its address.
public struct ListenFailure: Error, CustomStringConvertible, Sendable {
    public let description: String

    init(_ address: ListenAddress, _ error: any Error) {
        self.description = "listening on \(address): \(Self.reason(error))"
    }

    private static func reason(_ error: any Error) -> String {
        guard let code = (error as? IOError)?.errnoCode else { return "\(error)" }
        switch code {
        case EADDRINUSE: return "another program listens there"
        case EADDRNOTAVAIL: return "this machine has no such address"
        case EACCES: return "this user may not listen on that port"
        default: return "\(error)"
        }
    }
}

extension ServerBootstrap {
    /// Listens on an address.
    ///
    /// - Throws: `ListenFailure`.
    public func listen(on address: ListenAddress) async throws -> any Channel {
        do {
            return try await self.bind(host: address.host, port: address.port).get()
        } catch {
            throw ListenFailure(address, error)
        }
    }
}
