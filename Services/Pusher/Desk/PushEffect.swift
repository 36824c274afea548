import Model

/// What has to be done, outside, before the records of a notification are done.
struct PushEffect: Sendable {
    enum Work: Sendable {
        /// Take these registrations off, whose push token is gone, unless something newer stands there.
        case retire([(key: RegistrationKey, record: RegistrationRecord)])
        /// Publish that a device was not told.
        case report(PushLetter)
    }

    /// Of the target, to be given back when it is done.
    let number: UInt64
    let work: Work
}
