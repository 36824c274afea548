import ArgumentParser
import FoundationEssentials
import Kafka
import Logging
import Model
import NIOPosix
import Operations

/// `waybill-pusher notify`: notifies the devices of dead letters again.
struct NotifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notify",
        abstract: "Notifies devices whose notifications were dropped.",
        discussion: """
            Reads the open dead letters whose codes begin with push- and writes each device to push-pending, for \
            each order that they name. The pushers notify it from there like any other: once for all its orders, \
            with its current push token, and not at all if it is registered for none of them. Needs only Kafka, and \
            reads the same configuration as the service. A notification has no content, so repeating it is harmless; \
            the command can be stopped and run again at any time.
            """)

    @Flag(help: "Notify the devices named by dead letters.")
    var deadLetters = false

    @Option(help: "Only dead letters with this code, such as push-undeliverable.")
    var code: String?

    @Option(help: "Only dead letters from this time on: 2025-03-05T16:02:11Z, or an age: 30m, 6h, 2d.")
    var since: String?

    @Flag(help: "Also those that were closed, by dead-letters purge or forget.")
    var closed = false

    @Option(help: "Maximum number of registrations per second, 1 to 100000.")
    var rate = 200

    @Flag(help: "Print the number of registrations and write nothing.")
    var dryRun = false

    func validate() throws {
        guard self.deadLetters else { throw ValidationError("--dead-letters is required") }
        if let code, PushDeadLetterCode(rawValue: code) == nil {
            let codes = PushDeadLetterCode.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--code \(code): must be one of \(codes)")
        }
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
        _ = try self.moment(now: 0)
    }

    private func moment(now: Int64) throws -> Int64? {
        guard let since else { return nil }
        guard let moment = RFC3339.moment(since, nowMilliseconds: now) else {
            throw ValidationError("--since \(since): \(RFC3339.momentForms)")
        }
        return moment
    }

    func run() async throws {
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-pusher")
        let topics = environment.common.topics
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let survey = PushDeadLetterSurvey(
            code: self.code, since: try self.moment(now: now), takesClosed: self.closed)
        let found = try await survey.read(environment.kafka, topic: topics.deadLetters)
        Self.say("\(found.deadLetterCount) dead letters, \(found.keys.count) registrations to notify")
        guard !found.isOverfull else {
            throw ValidationError("more than \(PushDeadLetterSurvey.limit) registrations: use --since or --code")
        }
        if self.dryRun || found.keys.isEmpty { return }
        let producer = try KafkaProducer(
            environment.producing(within: environment.common.shutdownLimit), topics: [topics.pushPending])
        try await withCleanup(producer.close) {
            try await PendingPushWriter(
                producer: producer, topic: topics.pushPending, rate: self.rate, nowEpochMilliseconds: now
            ).write(found.keys)
        }
        Self.say("\(found.keys.count) registrations written to \(topics.pushPending)")
    }

    /// Writes to standard output. A reader that went away is no reason to stop.
    private static func say(_ text: String) {
        StandardStream.output.write(text + "\n")
    }
}
