import Model

/// Work outside the scheduler that must be finished before the records of a notification are done.
struct PushEffect: Sendable {
    enum Work: Sendable {
        /// Removes registrations with a push token that is gone.
        case retire(InvalidToken)
        /// Publishes that a device was not notified.
        case report(PushDeadLetter)
        /// Writes to the pending topic that some devices have yet to be notified.
        case suspend([ParkedPush])
    }

    /// The number of the target, returned when the work is done.
    let number: UInt64
    let work: Work
}

/// A push token that APNs reports as gone.
struct InvalidToken: Sendable {
    let token: PushToken
    /// Registrations with it before this moment, in milliseconds since 1970, are removed.
    let moment: Int64
    /// The registrations that led to the notification, each as last looked up.
    let registrations: [RegistrationKey: RegistrationRecord]

    /// Returns true if APNs' answer concerns a registration.
    func means(_ registration: RegistrationRecord) -> Bool {
        registration.pushToken == self.token && registration.registeredEpochMilliseconds < self.moment
    }
}
