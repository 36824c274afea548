import Model

/// What has to be done, outside, before the records of a notification are done.
struct PushEffect: Sendable {
    enum Work: Sendable {
        /// Take off what was registered with a push token that is gone.
        case retire(DeadToken)
        /// Publish that a device was not told.
        case report(PushLetter)
        /// Note that some devices have yet to be told.
        case suspend([ParkedPush])
    }

    /// Of the target, to be given back when it is done.
    let number: UInt64
    let work: Work
}

/// A push token that APNs calls gone.
struct DeadToken: Sendable {
    let token: PushToken
    /// What was registered with it before this moment, in milliseconds since 1970, is taken off.
    let moment: Int64
    /// What led to the notification, each as it was looked up last.
    let registrations: [RegistrationKey: RegistrationRecord]

    /// Whether APNs speaks of a registration.
    func means(_ registration: RegistrationRecord) -> Bool {
        registration.pushToken == self.token && registration.registeredEpochMilliseconds < self.moment
    }
}
