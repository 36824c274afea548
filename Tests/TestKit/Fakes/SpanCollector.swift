public import Model
import Synchronization

/// A collector of traces, which keeps the requests that it gets.
///
/// Source: OTLP 1.5 §OTLP/HTTP Request
public final class SpanCollector: Sendable {
    public let server: FakeServer
    private let taken: Taken

    private final class Taken: Sendable {
        let bodies = Mutex<[JSON]>([])
        let status: Int

        init(status: Int) { self.status = status }

        func answer(_ request: FakeServer.Request) -> FakeServer.Answer {
            guard request.method == "POST", request.path == "/v1/traces",
                request.header("content-type") == "application/json", let body = try? JSON(parsing: request.body)
            else { return .response(.json(400, "{}")) }
            self.bodies.withLock { $0.append(body) }
            return .response(.json(self.status, "{}"))
        }
    }

    private init(_ server: FakeServer, _ taken: Taken) {
        self.server = server
        self.taken = taken
    }

    /// - Parameter status: that of each answer.
    public static func start(status: Int = 200) async throws -> SpanCollector {
        let taken = Taken(status: status)
        return SpanCollector(try await FakeServer.start { taken.answer($0) }, taken)
    }

    public var url: String { "http://127.0.0.1:\(self.server.port)/v1/traces" }

    /// The requests so far.
    public var bodies: [JSON] { self.taken.bodies.withLock { $0 } }

    /// The spans so far, in the order of their arrival.
    public var spans: [JSONObject] {
        self.bodies.flatMap { $0.object?["resourceSpans"]?.array ?? [] }
            .flatMap { $0.object?["scopeSpans"]?.array ?? [] }
            .flatMap { $0.object?["spans"]?.array ?? [] }.compactMap(\.object)
    }
}

extension JSONObject {
    /// The value of an attribute of a span, as text.
    public func attribute(_ name: String) -> String? {
        let found = self["attributes"]?.array?.first { $0.object?["key"]?.string == name }
        let value = found?.object?["value"]?.object
        return value?["stringValue"]?.string ?? value?["intValue"]?.string
    }
}
