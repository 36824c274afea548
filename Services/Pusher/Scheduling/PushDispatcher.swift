package import APNS
package import Kafka
package import Model

/// Does the work that the scheduler decides on: submits due notifications to the clients, reports finished records and
/// changes of credentials, and queues effects. It also receives the clients' replies.
///
/// Owner: the worker. Thread: any. Replies arrive on the clients' event loops, and the notifications that they make
/// room for are submitted from there, so that a notification costs no task switch. A client's handlers retain the
/// dispatcher, and the scheduler retains the client until it is replaced or removed. Bounded: by the scheduler.
package final class PushDispatcher: Sendable {
    package let scheduler: PushScheduler
    package let followUps = FollowUpQueue()
    private let onFinished: @Sendable ([KafkaReceipt]) -> Void
    private let onChange: @Sendable (OrderTypeIdentifier, CredentialQueue.Change) -> Void

    /// - Parameter onFinished: called with the records that are done; must not block.
    package convenience init(_ scheduler: PushScheduler, onFinished: @escaping @Sendable ([KafkaReceipt]) -> Void) {
        self.init(scheduler, onFinished: onFinished, onChange: { _, _ in })
    }

    /// - Parameters:
    ///   - onFinished: called with the records that are done; must not block.
    ///   - onChange: called when a credential's health or breaker changes; must not block.
    init(
        _ scheduler: PushScheduler, onFinished: @escaping @Sendable ([KafkaReceipt]) -> Void,
        onChange: @escaping @Sendable (OrderTypeIdentifier, CredentialQueue.Change) -> Void
    ) {
        self.scheduler = scheduler
        self.onFinished = onFinished
        self.onChange = onChange
    }

    /// Adds the devices that some records concern: see `PushScheduler.add`.
    package func add(_ found: [PushLookup.Found], _ numbers: [Int32]) {
        self.perform(self.scheduler.add(found, numbers))
    }

    /// Processes replies of one credential's client.
    package func receive(_ replies: [PushReply], of type: OrderTypeIdentifier, generation: Int) {
        self.perform(self.scheduler.receive(replies, of: type, generation: generation))
    }

    /// Notes that one credential's client has made a connection: see `PushScheduler.connected`.
    func connected(_ type: OrderTypeIdentifier) { self.perform(self.scheduler.connected(type)) }

    /// Notes that one credential's client cannot connect to APNs.
    func unreachable(_ type: OrderTypeIdentifier, _ reason: String, generation: Int) {
        self.perform(self.scheduler.unreachable(type, reason, generation: generation))
    }

    /// Processes everything that has become due.
    ///
    /// - Returns: the time when something is due next; nil if nothing is.
    @discardableResult
    package func advance() -> ContinuousClock.Instant? {
        let (next, work) = self.scheduler.advance(openEffects: self.followUps.count)
        self.perform(work)
        return next
    }

    /// Notes that an effect was performed.
    ///
    /// - Parameter current: for a token that is gone, the present registrations of its keys.
    package func done(_ effect: PushEffect, current: [RegistrationKey: RegistrationRecord] = [:]) {
        self.perform(self.scheduler.done(effect, current: current))
    }

    private func perform(_ work: PushScheduler.Work) {
        if !work.finished.isEmpty { self.onFinished(work.finished) }
        for client in work.recalls { client.recall() }
        for (client, requests) in work.sends { client.submit(requests) }
        self.followUps.add(work.effects)
        for (type, change) in work.changes { self.onChange(type, change) }
    }
}
