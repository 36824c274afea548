import Kafka
import Model
import Operations
import Testing

@testable import Packager

/// Decisions about dead letters, without a broker.
@Suite struct DeadLetterRecordTests {
    private func record(
        _ offset: Int64, key: String? = "order.com.example/1", value: [UInt8]? = [1], origin: String = "c/3/7",
        code: String = "invalid-order", headers: [KafkaHeader] = [], own: [KafkaHeader] = [], partition: Int32 = 0
    ) -> KafkaRecord {
        KafkaRecord(
            topic: "waybill.dead-letters", partition: partition, offset: offset, timestampMilliseconds: 1000 + offset,
            key: key.map { Array($0.utf8) }, value: value,
            headers: headers + [
                KafkaHeader(name: RecordHeader.error.rawValue, text: code),
                KafkaHeader(name: RecordHeader.reason.rawValue, text: "$.status is wrong"),
                KafkaHeader(name: RecordHeader.origin.rawValue, text: origin),
            ] + own)
    }

    private func letter(_ record: KafkaRecord) throws -> DeadLetterRecord {
        guard case .letter(let letter) = DeadLetterRecord.read(record) else { throw CancellationError() }
        return letter
    }

    private func ledger(_ records: [KafkaRecord], _ filter: DeadLetterFilter = DeadLetterFilter()) -> DeadLetterIndex {
        var ledger = DeadLetterIndex(filter)
        for record in records { ledger.add(DeadLetterRecord.read(record)) }
        return ledger
    }

    @Test func aReplayedChangeIsUnchangedAndNamesItsDeadLetter() throws {
        let own = [KafkaHeader(name: "ce_id", text: "1"), KafkaHeader(name: "trace", value: nil)]
        let message = try self.letter(self.record(17, headers: own)).replay(Topics())
        #expect(message.topic == "waybill.order-changes")
        #expect(message.partition == nil)
        #expect(message.key == Array("order.com.example/1".utf8))
        #expect(message.value == [1])
        #expect(message.headers == own + [KafkaHeader(name: "waybill-replay", text: "waybill.dead-letters/0/17")])
        // A dead letter of a replayed change does not accumulate headers.
        let again = try self.letter(self.record(20, headers: message.headers)).replay(Topics())
        #expect(again.headers == own + [KafkaHeader(name: "waybill-replay", text: "waybill.dead-letters/0/20")])
    }

    @Test func duplicateDeadLettersAreMergedByOrigin() throws {
        let first = self.record(1)
        let note = try self.letter(first).note(Topics())
        let noted = KafkaRecord(
            topic: note.topic, partition: 0, offset: 9, timestampMilliseconds: 1, key: note.key, value: note.value,
            headers: note.headers)
        let ledger = self.ledger([first, self.record(2, origin: "c/3/8"), self.record(5), noted])
        #expect(ledger.entries.map(\.copies) == [2, 1])
        #expect(ledger.entries.map(\.position.offset) == [1, 2])
        #expect(ledger.entries.map(ledger.isReplayed) == [true, false])
        #expect(ledger.counts.map { [$0.letters, $0.replayed] } == [[2, 1]])
        let plan = ReplayPlan(ledger)
        #expect(plan.entries.map(\.position.offset) == [2])
        #expect(plan.replayed == 1)
        // The note may be read before its dead letter, because partitions are read concurrently.
        #expect(ReplayPlan(self.ledger([noted, first])).entries.isEmpty)
        // A topic that was recreated has the same origins, but other changes.
        #expect(self.ledger([first, self.record(2, value: [2])]).entries.count == 2)
        #expect(self.ledger([self.record(1, value: nil), self.record(2, value: [])]).entries.count == 2)
    }

    @Test func aClosedDeadLetterIsLeftOutAndSaysWhoClosedIt() throws {
        let first = self.record(1)
        let purge = try self.letter(first).purge(by: "anna", Topics())
        #expect(purge.partition == 0)
        let marker = KafkaRecord(
            topic: purge.topic, partition: 0, offset: 9, timestampMilliseconds: 2000, key: purge.key,
            value: purge.value, headers: purge.headers)
        var ledger = self.ledger([marker, first, self.record(2, origin: "c/3/8"), self.record(5)])
        #expect(ledger.open.map(\.position.offset) == [2])
        #expect(ledger.purge(of: ledger.entries[0]) == DeadLetterPurge(by: "anna", milliseconds: 2000))
        ledger.leaveOutPurged()
        #expect(ledger.entries.map(\.position.offset) == [2])
        // Later ones find their places.
        ledger.add(DeadLetterRecord.read(self.record(7, origin: "c/3/8")))
        #expect(ledger.entries.map(\.copies) == [2])
    }

    @Test func theTopicIsReadOnFromWhereItWasRead() {
        var index = DeadLetterIndex(DeadLetterFilter())
        func ranges(_ bounds: [(Int32, Int64, Int64)]) -> [[Int64]] {
            index.readOn(to: bounds.map { OffsetRange(partition: $0.0, first: $0.1, end: $0.2) })
                .map { [Int64($0.partition), $0.first, $0.end] }
        }
        let all = ranges([(0, 3, 9), (1, 0, 0)])
        let more = ranges([(0, 3, 12), (1, 0, 2)])
        let deleted = ranges([(0, 14, 15), (1, 0, 2)])
        #expect(all == [[0, 3, 9]])
        #expect(more == [[0, 9, 12], [1, 0, 2]])
        #expect(deleted == [[0, 14, 15]])
    }

    @Test func aLineOfAFileIsTheWholeRecord() throws {
        let letter = try self.letter(
            self.record(
                1, value: nil, headers: [KafkaHeader(name: "none", value: nil), .init(name: "raw", value: [255])]))
        let message = try DeadLetterLine.message(DeadLetterLine.json(letter).text, topic: "t")
        #expect(message.topic == "t")
        #expect(message.key == letter.record.key)
        #expect(message.value == nil)
        #expect(message.headers == letter.record.headers)
        #expect(message.timestampMilliseconds == letter.record.timestampMilliseconds)
        for line in ["", "[]", "{\"milliseconds\":1,\"headers\":[]}", "{\"milliseconds\":1,\"headers\":[1]}"] {
            #expect(throws: (any Error).self) { try DeadLetterLine.message(line, topic: "t") }
        }
    }

    @Test func deadLettersOfAnOrderAreReplayedInOffsetOrder() {
        let records = [
            self.record(0, key: "a", origin: "c/0/5"), self.record(1, key: "b", origin: "c/0/4"),
            self.record(2, key: "a", origin: "c/0/3"), self.record(3, key: "b", origin: "c/0/10"),
            self.record(4, key: "a", origin: "c/0/4"),
        ]
        let plan = ReplayPlan(self.ledger(records))
        #expect(plan.entries.map(\.position.offset) == [2, 1, 4, 3, 0])
        let rounds = plan.entries.rounds(by: \.order).map { $0.map(\.position.offset) }
        #expect(rounds == [[2, 1], [4, 3], [0]])
    }

    @Test func deadLettersOfRemovedOrdersAreLeftOut() throws {
        func entry(_ offset: Int64, key: String = "order.com.example/1") throws -> DeadLetterIndex.Entry {
            let ledger = self.ledger([self.record(offset, key: key, origin: "c/3/\(offset)")])
            return try #require(ledger.entries.first)
        }
        func record(_ offset: Int64, type: String?, key: String = "order.com.example/1", milliseconds: Int64 = 0)
            -> KafkaRecord
        {
            KafkaRecord(
                topic: "c", partition: 3, offset: offset, timestampMilliseconds: milliseconds, key: Array(key.utf8),
                value: type.map { ChangeLog.event($0, subject: key, id: "\(offset)", nil) },
                headers: [ChangeLog.contentType])
        }
        let old = try entry(5)
        let (before, after) = (try entry(20), try entry(40))
        let other = try entry(21, key: "order.com.example/2")
        let beyond = try entry(90)
        let entries = [old, before, after, other, beyond]
        var ledger = RemovalLedger([OffsetRange(partition: 3, first: 10, end: 50)], entries)
        #expect(ledger.ranges(entries).map { [$0.first, $0.end] } == [[10, 50]])
        #expect(ledger.ranges([after]).map { [$0.first, $0.end] } == [[40, 50]])
        #expect(ledger.ranges([beyond]).isEmpty)
        #expect(entries.map(ledger.isCertain) == [false, true, true, true, false])
        #expect(entries.map(ledger.verdict) == [.unknown, .stands, .stands, .stands, .stands])
        ledger.add(change: record(30, type: "order.removed"))
        ledger.add(change: record(31, type: "order.replaced", key: "order.com.example/2"))
        ledger.add(change: record(32, type: nil, key: "order.com.example/2"))
        #expect(entries.map(ledger.verdict) == [.removed, .removed, .stands, .stands, .stands])

        // A replayed removal counts at its original position.
        let letter = KafkaHeader(name: RecordHeader.replay.rawValue, text: "waybill.dead-letters/0/20")
        let removal = record(45, type: "order.removed")
        let refused = self.ledger([self.record(20, value: removal.value, origin: "c/3/20")]).entries
        var again = RemovalLedger([OffsetRange(partition: 3, first: 10, end: 50)], entries, of: refused)
        again.add(
            change: KafkaRecord(
                topic: "c", partition: 3, offset: 45, timestampMilliseconds: 0, key: removal.key, value: removal.value,
                headers: removal.headers + [letter]))
        #expect(entries.map(again.verdict) == [.removed, .stands, .stands, .stands, .stands])

        // While dead letters are replayed, the topic continues to grow.
        let now = [OffsetRange(partition: 3, first: 12, end: 60), OffsetRange(partition: 4, first: 0, end: 9)]
        let more = ledger.readOn(to: now).map { [Int64($0.partition), $0.first, $0.end] }
        #expect(more == [[3, 50, 60]])
        let none = ledger.readOn(to: now)
        #expect(none.isEmpty, "nothing came")

        // The topic of orders may retain what the topic of changes has lost. The dead letter is of time 1005.
        var orders = RemovalLedger([OffsetRange(partition: 3, first: 10, end: 50)], [old])
        orders.add(order: record(1, type: nil, milliseconds: 1004))
        #expect(orders.verdict(old) == .stands, "removed before, and its letter came later")
        orders.add(order: record(2, type: nil, milliseconds: 1006))
        #expect(orders.verdict(old) == .removed)
        orders.add(order: record(3, type: "order.replaced", milliseconds: 1007))
        #expect(orders.verdict(old) == .removed, "another order of that name")
        var standing = RemovalLedger([OffsetRange(partition: 3, first: 10, end: 50)], [old])
        standing.add(order: record(1, type: "order.replaced"))
        #expect(standing.verdict(old) == .stands)

        var plan = ReplayPlan(self.ledger([self.record(5, origin: "c/3/5"), self.record(40, origin: "c/3/40")]))
        plan.leaveOut(ledger)
        #expect(plan.entries.map(\.position.offset) == [40])
        #expect(plan.removed == 1)
        #expect(plan.left == 1)
    }

    @Test func deadLettersOfAnotherTopicNeedAnExistingOrder() throws {
        var letters = DeadLetterIndex(DeadLetterFilter(), changes: "c")
        for (offset, origin) in [(1, "other/3/20"), (2, "c/3/21"), (3, "other/3/90")] {
            letters.add(DeadLetterRecord.read(self.record(Int64(offset), origin: origin)))
        }
        let entries = letters.entries
        #expect(entries.map(\.isElsewhere) == [true, false, true])
        var ledger = RemovalLedger([OffsetRange(partition: 3, first: 10, end: 50)], entries)
        #expect(entries.map(ledger.isCertain) == [false, true, false])
        #expect(entries.map(ledger.verdict) == [.unknown, .stands, .unknown])
        ledger.add(
            order: KafkaRecord(
                topic: "o", partition: 3, offset: 1, timestampMilliseconds: 0, key: Array("order.com.example/1".utf8),
                value: [1]))
        #expect(entries.map(ledger.verdict) == [.stands, .stands, .stands])
    }

    @Test func aTombstoneIsReplayedButNotAnOmittedValue() throws {
        let omitted = self.record(1, value: nil, own: [KafkaHeader(name: RecordHeader.omitted.rawValue, text: "x")])
        let plan = ReplayPlan(self.ledger([omitted, self.record(2, value: nil, origin: "c/3/8")]))
        #expect(plan.omitted == 1)
        #expect(plan.entries.map(\.position.offset) == [2])
        let words = DeadLetterFormatter.verdict(try self.letter(omitted), isReplayed: false, topics: Topics())
        #expect(words.hasPrefix("cannot be replayed"))
    }

    private func push(_ offset: Int64, device: String = "secret", attempts: Int64 = 8) -> KafkaRecord {
        let value: JSON = ["device": .string(device), "attempts": .integer(attempts)]
        return self.record(offset, value: value.serialized, origin: "o/0/1", code: "push-undeliverable")
    }

    @Test func aNotificationIsNotReplayed() throws {
        // Codes that a later pusher may have are recognized by their prefix.
        for code in PushDeadLetterCode.allCases.map(\.rawValue) + ["push-new"] {
            let plan = ReplayPlan(self.ledger([self.record(1, code: code), self.record(2, origin: "c/3/8")]))
            #expect(plan.pushes == 1)
            #expect(plan.omitted == 0)
            #expect(plan.entries.map(\.position.offset) == [2])
            #expect(
                ReplayDeadLettersCommand.text(of: plan, self.ledger([self.record(1, code: code)]))
                    .contains("1 cannot be replayed: they are notifications, not changes; the device's next"))
            let words = DeadLetterFormatter.verdict(
                try self.letter(self.record(1, code: code)), isReplayed: false, topics: Topics())
            #expect(words.hasPrefix("cannot be replayed: it is a notification, not a change"))
        }
    }

    @Test func duplicateNotificationsAreMergedByDevice() {
        let records = [self.push(1), self.push(2, attempts: 9), self.push(3, device: "other")]
        #expect(self.ledger(records).entries.map(\.copies) == [2, 1])
    }

    @Test func aPushDeadLetterIsPrintedWithItsDeviceRedacted() throws {
        let letter = try self.letter(self.push(1))
        let texts = [
            DeadLetterFormatter.whole(letter, copies: 1, isReplayed: false, topics: Topics()),
            DeadLetterFormatter.wholeJSON(letter, copies: 1, isReplayed: false, topics: Topics()).text,
            DeadLetterFormatter.row(.init(letter), copies: 1, isReplayed: false),
            DeadLetterFormatter.json(.init(letter), copies: 1, isReplayed: false).text,
        ]
        for text in texts {
            #expect(!text.contains("secret"))
            #expect(text.contains("push-undeliverable"))
        }
        #expect(texts[0].contains("\"device\": \"(device)\""))
        #expect(texts[1].contains("\"attempts\":8"))
    }

    @Test func filtersMatchByCodeOrderTypeAndTime() throws {
        let letter = try self.letter(self.record(500))
        func matches(_ change: (inout DeadLetterFilter) -> Void) -> Bool {
            var filter = DeadLetterFilter()
            change(&filter)
            return filter.matches(letter)
        }
        #expect(matches { $0.code = "invalid-order" })
        #expect(!matches { $0.code = "invalid-json" })
        #expect(matches { $0.orders = ["order.com.example/1", "order.com.example/2"] })
        #expect(!matches { $0.orders = ["order.com.example/"] })
        #expect(matches { $0.type = "order.com.example" })
        #expect(!matches { $0.type = "order.com" })
        #expect(matches { $0.since = 1500 })
        #expect(!matches { $0.since = 1501 })
        #expect(matches { $0.until = 1501 })
        #expect(!matches { $0.until = 1500 })
        #expect(RFC3339.moment("2h", nowMilliseconds: 10_000_000) == 2_800_000)
        #expect(RFC3339.moment("1970-01-01T00:00:05Z", nowMilliseconds: 0) == 5000)
        for text in ["", "h", "2w", "-1h", "99999999999999999999d", "1000001d", "yesterday"] {
            #expect(RFC3339.moment(text, nowMilliseconds: 0) == nil)
        }
    }

    @Test func aRecordThatIsNotADeadLetterIsOnlyCounted() {
        let stranger = KafkaRecord(
            topic: "t", partition: 0, offset: 0, timestampMilliseconds: -1, key: nil, value: nil,
            headers: [KafkaHeader(name: RecordHeader.replayed.rawValue, text: "no number")])
        #expect(self.ledger([stranger]).others == 1)
        // Without a key, a usable origin and a time, it is still a dead letter.
        #expect(self.ledger([self.record(0, key: nil, origin: "?")]).entries.first?.source == nil)
    }

    @Test func aDeadLetterPositionIsTwoNumbers() {
        #expect(DeadLetterPosition("3/17") == DeadLetterPosition(partition: 3, offset: 17))
        for text in ["", "3", "3/", "/1", "3/17/1", "-1/2", "3/-1", "99999999999/1", "1/9223372036854775807", "a/b"] {
            #expect(DeadLetterPosition(text) == nil)
        }
    }

    @Test func nearbyDeadLettersAreReadTogether() {
        let positions = [(0, 5), (0, 7), (0, 5000), (1, 1)].map { DeadLetterPosition(partition: $0.0, offset: $0.1) }
        let runs = DeadLetterTopic.runs(positions).map { $0.map { [Int64($0.partition), $0.first, $0.end] } }
        #expect(runs == [[[0, 5, 8], [0, 5000, 5001]], [[1, 1, 2]]])
        #expect(DeadLetterTopic.runs([]).isEmpty)
    }

    /// The text that a person reads can be pasted into a test of a source.
    @Test func indentedJSONIsTheSameJSON() throws {
        let json: JSON = [
            "a\u{200D}b": ["\u{1B}[2J", 1, [:], []], "family": "\u{1F468}\u{200D}\u{1F469}", "tag": "\u{E0041}",
        ]
        let text = DeadLetterFormatter.pretty(json)
        #expect(try JSON(parsing: Array(text.utf8)) == json)
        #expect(text.contains("\n  \"family\": \"\u{1F468}\\u200d\u{1F469}\""))
        #expect(text.contains("\\udb40\\udc41"))
        #expect(!text.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{200D}" })
    }

    @Test func terminalEscapesAreNotPrinted() throws {
        let letter = try self.letter(self.record(1, key: "a\u{1B}]0;x\u{7}", value: Array("\u{1B}[2J".utf8)))
        let line = DeadLetterFormatter.row(.init(letter), copies: 2, isReplayed: false)
        #expect(line.contains("2× "))
        #expect(line.contains("a\\u{1b}]0;x\\u{7}"))
        #expect(!line.contains("\u{1B}"))
        #expect(!DeadLetterFormatter.whole(letter, copies: 1, isReplayed: false, topics: Topics()).contains("\u{1B}"))
    }

    @Test func aListIsLimitedToTheNewestDeadLetters() {
        let ledger = self.ledger((0..<9).map { self.record($0, origin: "c/0/\($0)", partition: Int32($0 % 2)) })
        #expect(ledger.newest(3).map(\.milliseconds) == [1006, 1007, 1008])
        #expect(ledger.newest(0).isEmpty)
    }
}
