import Fetch

/// The common parts of calls to shops' and payment providers' services.
enum Upstream {
    /// Allows the public internet, and the addresses that a merchant lists.
    static func policy(_ addresses: [String]) -> AddressPolicy {
        AddressPolicy(exceptions: Set(addresses.compactMap { Fetch.IPAddress($0) }))
    }

    /// Returns the refusal for a call without an answer.
    ///
    /// With money involved, the caller must know whether anything can have happened: a call of which nothing was sent
    /// certainly had no effect; any other may have had one.
    static func failure(_ error: FetchError) -> CheckoutFailure {
        if error.mayHaveBeenSent {
            return CheckoutFailure(.outcomeUnknown, "the service did not answer: the outcome is unknown")
        }
        return CheckoutFailure(.upstreamUnavailable, "the service cannot be reached: nothing was done")
    }
}
