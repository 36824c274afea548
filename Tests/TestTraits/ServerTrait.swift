import TestKit
public import Testing

extension Trait where Self == ConditionTrait {
    /// The trait of a test or suite that needs a server: redis-server, a broker, a listener, or a program that runs
    /// beside it. A pure run (`compose/test --pure`) skips it; in such a run the helpers of TestKit start no server.
    public static var server: ConditionTrait { .enabled(if: TestServers.areAllowed, "a pure run has no servers") }
}
