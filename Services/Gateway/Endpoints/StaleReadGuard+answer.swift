import HTTPServer
import NIOCore
import Store

extension StaleReadGuard {
    /// Returns the answer of `act`, if the view was beyond doubt before and still is.
    ///
    /// - Parameter act: receives the generation, to check that it still holds before doing anything irreversible.
    func answer(
        on eventLoop: any EventLoop, _ act: @escaping @Sendable (UInt64) -> EventLoopFuture<Answer>
    ) -> EventLoopFuture<Answer> {
        self.currentGeneration(on: eventLoop).flatMap { generation in
            guard let generation else { return eventLoop.makeSucceededFuture(.restoring) }
            return act(generation).map { self.holds(generation) ? $0 : .restoring }
        }
    }
}
