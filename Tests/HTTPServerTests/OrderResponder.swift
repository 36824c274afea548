import CoreMetrics
import Model
import NIOCore
import NIOHTTP1
import Synchronization

@testable import HTTPServer

/// A role with large answers, answers that wait, and bodies: orders as Wallet fetches them, from memory.
///
/// It counts answers under the gateway's name for them.
final class OrderResponder: Responder {
    /// The time for which a request waits for its order.
    struct Hold: Sendable {
        var time = TimeAmount.seconds(5)
    }

    struct Order: Sendable {
        let token: String
        let entityTag: String
    }

    private struct Waiter {
        let request: Request
        let promise: EventLoopPromise<Answer>
    }

    private struct State {
        var orders: [String: Order] = [:]
        var waiting: [String: [Int: Waiter]] = [:]
        var count = 0
    }

    /// The parts of a package, 300 kB together.
    static let package = [
        Array("PK head ".utf8) + Array(0...255), Array("asset one\r\n\r\n".utf8), [0, 255],
        [UInt8](repeating: 9, count: 300_000), Array("tail".utf8),
    ].map { ByteBuffer(bytes: $0) }

    let reading: ExtendedReading? = nil
    private let holding: Hold
    private let metrics: any MetricsFactory
    private let state = Mutex(State())

    init(holding: Hold, metrics: any MetricsFactory) {
        self.holding = holding
        self.metrics = metrics
    }

    static func derived(_ order: String) -> String { "derived-token-of-\(order)" }

    func put(_ name: String, _ order: Order) {
        let waiters = self.state.withLock { state in
            state.orders[name] = order
            return state.waiting.removeValue(forKey: name) ?? [:]
        }
        for waiter in waiters.values { waiter.promise.succeed(self.package(order, waiter.request)) }
    }

    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        let segments: [String]
        do {
            segments = try RequestTarget(request.target).segments(behind: "/apple") ?? []
        } catch {
            return eventLoop.makeSucceededFuture(self.refusal(error.status, error.message))
        }
        if segments.count == 3, segments[0] == "orders" { return self.order(segments[2], request, eventLoop) }
        let answer: Answer
        switch segments.first {
        case "log" where segments.count == 1 && request.method == .post:
            let isList = (try? JSON(parsing: Array(request.body.readableBytesView)))?.array != nil
            answer = isList ? Answer(.ok) : .failure(.badRequest, "this is no list")
        case "devices" where segments.count == 4: answer = Answer(.noContent)
        default: answer = .failure(.notFound, "there is no such path")
        }
        return eventLoop.makeSucceededFuture(self.counted("none", answer))
    }

    func refusal(_ fault: RequestFault, of request: Request?, on eventLoop: any EventLoop) -> Answer {
        var answer = Answer.failure(fault.status, fault.message)
        if let seconds = fault.retryAfterSeconds { answer.headers.add(name: "retry-after", value: String(seconds)) }
        return self.counted("none", answer)
    }

    private func refusal(_ status: HTTPResponseStatus, _ message: String) -> Answer {
        self.counted("none", .failure(status, message))
    }

    private func order(_ name: String, _ request: Request, _ eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        guard (try? OrderIdentifier(name)) != nil else {
            return eventLoop.makeSucceededFuture(self.refusal(.badRequest, "this is no order"))
        }
        let promise = eventLoop.makePromise(of: Answer.self)
        let (order, number) = self.state.withLock { state -> (Order?, Int) in
            if let order = state.orders[name] { return (order, 0) }
            guard Self.token(request) == Self.derived(name) else { return (nil, 0) }
            state.count += 1
            state.waiting[name, default: [:]][state.count] = Waiter(request: request, promise: promise)
            return (nil, state.count)
        }
        if number > 0 {
            eventLoop.scheduleTask(in: self.holding.time) {
                let waiter = self.state.withLock { $0.waiting[name]?.removeValue(forKey: number) }
                waiter?.promise.succeed(self.counted("package", .failure(.unauthorized, "there is no such order")))
            }
        } else {
            // Later, as of a role that asks Redis: requests that arrive together begin before the first is answered.
            eventLoop.execute {
                promise.succeed(
                    order.map { self.package($0, request) }
                        ?? self.counted("package", .failure(.unauthorized, "there is no such order")))
            }
        }
        return promise.futureResult
    }

    private func package(_ order: Order, _ request: Request) -> Answer {
        guard Self.token(request) == order.token else {
            return self.counted("package", .failure(.unauthorized, "the token is wrong"))
        }
        let tag = "\"\(order.entityTag)\""
        let isSame = request.fields.ifNoneMatch.contains { $0 == "*" || $0 == tag }
        let answer = isSame ? Answer(.notModified) : Answer(.ok, headers: ["etag": tag], body: Self.package)
        return self.counted("package", answer)
    }

    private static func token(_ request: Request) -> String? {
        request.fields.authorization?.split(separator: " ").last.map(String.init)
    }

    private func counted(_ endpoint: String, _ answer: Answer) -> Answer {
        Counter(
            label: "waybill_responses_total",
            dimensions: [("endpoint", endpoint), ("status", "\(answer.status.code)")], factory: self.metrics
        ).increment()
        return answer
    }
}
