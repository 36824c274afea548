import NIOCore

/// The next deadline of a connection, which costs the same to move and to drop however many connections there are.
///
/// NIO's loop searches all of its timers for one that is cancelled. So none is: one that fires too early is armed
/// again, and one that was left behind does nothing. None is armed further ahead than `span`, which bounds those.
final class ConnectionDeadline {
    /// The longest time for which a timer is armed.
    static let span = TimeAmount.seconds(10)

    private let eventLoop: any EventLoop
    /// Nil if there is none, and once it was dropped.
    private(set) var moment: NIODeadline?
    /// The moment of the timer that counts.
    private var armed: NIODeadline?
    private var hit: (() -> Void)?

    /// - Parameter hit: called at each moment that it was moved to and not away from. It may keep the connection alive
    ///   until this is dropped.
    init(on eventLoop: any EventLoop, hit: @escaping () -> Void) {
        self.eventLoop = eventLoop
        self.hit = hit
    }

    func move(to moment: NIODeadline) {
        guard self.hit != nil else { return }
        self.moment = moment
        self.arm(for: moment)
    }

    /// Ends it: nothing is called any more.
    func drop() {
        self.moment = nil
        self.hit = nil
    }

    private func arm(for moment: NIODeadline) {
        if let armed, armed <= moment { return }
        let alarm = min(moment, self.eventLoop.now + Self.span)
        self.armed = alarm
        self.eventLoop.assumeIsolated().scheduleTask(deadline: alarm) { self.fire(alarm) }
    }

    private func fire(_ alarm: NIODeadline) {
        guard alarm == self.armed else { return }
        self.armed = nil
        guard let moment else { return }
        guard moment <= self.eventLoop.now else { return self.arm(for: moment) }
        self.moment = nil
        self.hit?()
    }
}
