/// A server on 127.0.0.1 that answers Wallet, of which each test has its own.
public protocol WalletServer {
    static var orderType: String { get }
    var port: Int { get }
}

extension WalletServer {
    /// Returns a request, with a body unless it is nil.
    public func request(
        _ method: String, _ path: String, token: String? = nil, _ headers: [String] = [], body: String? = nil
    ) -> String {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: wallet.example"]
        if let token { lines.append("Authorization: AppleOrder \(token)") }
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return (lines + headers).joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
    }

    public func package(_ order: String) -> String { "/apple/v1/orders/\(Self.orderType)/\(order)" }

    public func list(_ device: String, _ tag: String? = nil) -> String {
        "/apple/v1/devices/\(device)/registrations/\(Self.orderType)" + (tag.map { "?ordersModifiedSince=\($0)" } ?? "")
    }

    public func once(
        _ method: String, _ path: String, token: String? = nil, _ headers: [String] = [], body: String? = nil
    ) async throws -> RawConnection.Response {
        try await RawConnection.once(
            port: self.port, self.request(method, path, token: token, headers, body: body))
    }

    /// Opens a connection for `body` and closes it.
    public func connected<Result>(_ body: (RawConnection) async throws -> Result) async throws -> Result {
        let connection = try await RawConnection.open(port: self.port)
        do {
            let result = try await body(connection)
            await connection.close()
            return result
        } catch {
            await connection.close()
            throw error
        }
    }

    public func isAlive() async throws -> Bool { try await self.once("POST", "/v1/log", body: "[]").status == 200 }
}
