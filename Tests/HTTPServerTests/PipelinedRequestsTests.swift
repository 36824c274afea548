import NIOEmbedded
import Testing

@testable import HTTPServer

@Suite struct PipelinedRequestsTests {
    /// The decoded requests, in order.
    final class Decoded {
        var order: [Int] = []
    }

    @Test func pipelinedRequestsAreDecodedInOrderAFewPerTurn() {
        let loop = EmbeddedEventLoop()
        let (requests, decoded) = (PipelinedRequests(loop), Decoded())
        let turn = PipelinedRequests.requestsATurn
        for number in 0..<2 * turn + 1 { requests.wait { decoded.order.append(number) } }
        loop.run()
        #expect(decoded.order.isEmpty)
        for expected in [turn, 2 * turn, 2 * turn + 1, 2 * turn + 1] {
            loop.advanceTime(by: PipelinedRequests.pause)
            #expect(decoded.order == Array(0..<expected))
        }
    }

    @Test func pipeliningConnectionsAreServedRoundRobin() {
        let loop = EmbeddedEventLoop()
        let (requests, decoded) = (PipelinedRequests(loop), Decoded())
        func pipeline(_ number: Int, _ left: Int) {
            requests.wait {
                decoded.order.append(number)
                if left > 1 { pipeline(number, left - 1) }
            }
        }
        for number in 0..<3 { pipeline(number, 4) }
        loop.advanceTime(by: PipelinedRequests.pause)
        #expect(decoded.order == [0, 1, 2, 0, 1, 2, 0, 1])
        loop.advanceTime(by: PipelinedRequests.pause)
        #expect(decoded.order.suffix(4) == [2, 0, 1, 2])
    }
}
