import Kafka
import Model
import Operations
import Testing

@testable import Packager

/// Headers that only Waybill writes, on records that others wrote: they are data, and go nowhere.
@Suite struct SenderHeaderTests {
    /// All of Waybill's headers, as a sender may set them.
    private static let forged = RecordHeader.allCases.map { KafkaHeader($0, text: "1") }
    private static let own = [KafkaHeader(name: "ce_id", text: "1"), KafkaHeader(name: "trace", value: nil)]

    private static func change(_ headers: [KafkaHeader], value: [UInt8]? = [1], offset: Int64 = 7) -> KafkaRecord {
        KafkaRecord(
            topic: "c", partition: 3, offset: offset, timestampMilliseconds: 5, key: Array("order.com.example/1".utf8),
            value: value, headers: headers)
    }

    /// The record of a message on `waybill.dead-letters`.
    private static func record(_ message: KafkaMessage, at offset: Int64 = 1) -> KafkaRecord {
        KafkaRecord(
            topic: message.topic, partition: 0, offset: offset, timestampMilliseconds: 2000, key: message.key,
            value: message.value, headers: message.headers)
    }

    private static func letter(_ record: KafkaRecord) throws -> DeadLetterRecord {
        guard case .letter(let letter) = DeadLetterRecord.read(record) else { throw CancellationError() }
        return letter
    }

    private static func message(
        _ headers: [KafkaHeader], _ code: ChangeFault.Code = .invalidOrder, value: [UInt8]? = [1], offset: Int64 = 7
    ) -> KafkaMessage {
        let fault = ChangeFault(code: code, reason: "wrong")
        return DeadLetter.message(
            of: self.change(headers, value: value, offset: offset), fault: fault, topics: Topics())
    }

    /// A dead letter as the release before wrote it: with all headers of its record.
    private static func former(_ headers: [KafkaHeader]) -> KafkaRecord {
        var message = self.message([])
        message.headers = headers + message.headers
        return self.record(message)
    }

    private static func index(_ records: [KafkaRecord], limit: Int = 100) -> DeadLetterIndex {
        var index = DeadLetterIndex(DeadLetterFilter(), limit: limit)
        for record in records { index.add(DeadLetterRecord.read(record)) }
        return index
    }

    @Test func aDeadLetterHasOnlyItsOwn() throws {
        let names = ["waybill-error", "waybill-reason", "waybill-origin"]
        let unknown = [KafkaHeader(name: "waybill-new", text: "1")]
        let letter = Self.message(Self.forged + Self.own + unknown)
        #expect(letter.headers.prefix(2) == Self.own[...])
        #expect(letter.headers.dropFirst(2).map(\.name) == names)
        #expect(letter.headers.text(.error) == "invalid-order")
        // A source's program gets the merchant's name again.
        let mapped = Self.message(Self.forged + Self.own, .mapFailed)
        #expect(mapped.headers.map(\.name) == ["waybill-merchant", "ce_id", "trace"] + names + ["waybill-time"])
        #expect(mapped.headers.text(.time) == "5")
        #expect(try Self.letter(Self.record(mapped)).sourceRecord?.headers.map(\.name).first == "waybill-merchant")
    }

    /// Also for the dead letters that were written with all headers of their records.
    @Test func aDeadLetterIsReadWithoutThoseOfItsRecord() throws {
        for headers in [[], Self.forged + Self.own, Self.forged.reversed() + Self.own] {
            let record = Self.former(headers)
            let letter = try Self.letter(record)
            #expect(letter.code == "invalid-order")
            #expect(letter.origin == "c/3/7")
            #expect(!letter.isOmitted)
            let replay = letter.replay(Topics()).headers
            #expect(
                replay.filter { RecordHeader.isReserved($0.name) } == [.init(.replay, text: "waybill.dead-letters/0/1")]
            )
            let shown = DeadLetterFormatter.whole(letter, copies: 1, isReplayed: false, topics: Topics())
            #expect(!shown.contains("purged"))
            let copied = try DeadLetterLine.message(DeadLetterLine.json(letter).text, topic: "t")
            #expect(copied.headers.count { $0.name == "waybill-error" } == 1)
            #expect(copied.headers.text(.purged) == nil)
        }
        let omitted = DeadLetter.messageWithoutValue(
            of: Self.change(Self.forged), fault: ChangeFault(code: .invalidKey, reason: "r"), topics: Topics())
        #expect(try Self.letter(Self.record(omitted)).isOmitted)
    }

    /// A change with the markers of all kinds is a dead letter like any other, and closes none.
    @Test func noSenderClosesOrHidesADeadLetter() throws {
        let victim = Self.record(Self.message([], value: [2]))
        let letter = try Self.letter(victim)
        let markers = [letter.note(Topics()), letter.purge(by: "alice", Topics())]
        // Its sender knows origin, key and value, and so the identity.
        let hostile = markers.enumerated().map { number, marker in
            Self.former(marker.headers).with(offset: Int64(number + 2))
        }
        let written = markers.enumerated().map { number, marker in
            Self.record(Self.message(marker.headers, value: nil, offset: Int64(number + 20)), at: Int64(number + 20))
        }
        let index = Self.index([victim] + hostile + written, limit: 4)
        #expect(index.open.map(\.position.offset) == [1, 2, 20, 21], "two of the release before have one identity")
        #expect(!index.isOverfull)
        #expect(index.others == 0)
        // A marker has the shape that Waybill gives it.
        let real = Self.record(markers[1], at: 30)
        #expect(Self.index([victim, real]).open.isEmpty)
        let broken = [
            real.with(headers: real.headers.filter { $0.name != "waybill-origin" }),
            real.with(headers: real.headers.map { $0.name == "waybill-identity" ? .init(.identity, text: "x") : $0 }),
            KafkaRecord(
                topic: "t", partition: 0, offset: 1, timestampMilliseconds: 1, key: real.key, value: [],
                headers: real.headers),
        ]
        for record in broken { #expect(Self.index([victim, record]).open.count == 1) }
    }

    @Test func manyForgedMarkersFillNothing() {
        let markers = (0..<50).map { number in
            Self.former([KafkaHeader(.purged, text: String(number, radix: 16)), .init(.purgedBy, text: "alice")])
        }
        let index = Self.index(markers, limit: 1)
        #expect(index.entries.map(\.copies) == [50])
        #expect(!index.isOverfull)
    }

    /// The release before names a dead letter by a hash that others can have too, if they want.
    @Test func aMarkerOfTheReleaseBeforeClosesTheDeadLetterOfItsPlaceOnly() throws {
        // Made with Python, of "c/3/7", "order.com.example/1" and 01.
        let hash = "af155b50c374b8d5"
        func marker(_ name: RecordHeader, _ origin: String) -> KafkaRecord {
            Self.change([.init(name, text: hash), .init(.origin, text: origin)], value: nil)
        }
        let letter = Self.record(Self.message([]))
        #expect(Self.index([letter, marker(.replayed, "c/3/7")]).open.isEmpty)
        #expect(Self.index([letter, marker(.purged, "c/3/7")]).open.isEmpty)
        #expect(Self.index([letter, marker(.purged, "c/3/8")]).open.count == 1)
        #expect(Self.index([letter, marker(.purged, "c/3/7").keyed(nil)]).open.count == 1)
        // It finds its hash in the markers of this one.
        #expect(try Self.letter(letter).note(Topics()).headers.text(.replayed) == hash)
    }

    /// A removal counts at the place of a dead letter only if it is the change of that dead letter.
    @Test func aRemovalIsNoReplayBecauseItSaysSo() throws {
        let key = "order.com.example/1"
        func removal(_ identifier: String) -> [UInt8] {
            ChangeLog.event("order.removed", subject: key, id: identifier, nil)
        }
        func record(_ identifier: String, at offset: Int64, _ headers: [KafkaHeader] = []) -> KafkaRecord {
            Self.change([ChangeLog.contentType] + headers, value: removal(identifier), offset: offset)
        }
        func letter(_ value: [UInt8], of offset: Int64, at place: Int64) -> KafkaRecord {
            Self.record(Self.message([], value: value, offset: offset), at: place)
        }
        var letters = DeadLetterIndex(DeadLetterFilter(), changes: "c")
        for letter in [letter(removal("1"), of: 20, at: 2), letter([1], of: 40, at: 4)] {
            letters.add(DeadLetterRecord.read(letter))
        }
        let entries = letters.entries
        func verdicts(_ identifier: String) -> [RemovalLedger.Verdict] {
            var ledger = RemovalLedger([OffsetRange(partition: 3, first: 0, end: 50)], entries, of: entries)
            ledger.add(change: record(identifier, at: 45, [.init(.replay, text: "waybill.dead-letters/0/2")]))
            return entries.map(ledger.verdict)
        }
        #expect(verdicts("1") == [.stands, .stands], "it was at 20")
        #expect(verdicts("2") == [.removed, .removed], "it is at 45")
    }

    @Test func aReplayCountsTheDeadLettersOfItsOwnChanges() {
        var index = DeadLetterIndex(DeadLetterFilter(places: []), changes: "c")
        index.take(changesAt: [.init(topic: "c", partition: 3, offset: 7), .init(topic: "c", partition: 3, offset: -1)])
        let forged = [KafkaHeader(.replay, text: "waybill.dead-letters/0/1")]
        index.add(DeadLetterRecord.read(Self.record(Self.message(forged, offset: 8))))
        #expect(index.entries.isEmpty)
        index.add(DeadLetterRecord.read(Self.record(Self.message([]))))
        #expect(index.entries.count == 1)
    }

    @Test func aProgramGetsTheMerchantAndNoOtherOfThem() throws {
        let mapping = try SourceFixture.map(
            """
            function map(e, record)
                for _, name in ipairs(e) do if record.headers[name] then error(name) end end
                return {{order = "1", data = {orderNumber = record.headers["waybill-merchant"] .. record.headers.own}}}
            end
            """,
            value: JSON.array(
                (RecordHeader.allCases.filter { $0 != .merchant }.map(\.rawValue) + ["waybill-new"]).map { .string($0) }
            ).text,
            headers: Self.forged + [.init(name: "waybill-new", text: "1"), .init(name: "own", text: "2")])
        #expect(mapping.events.map { $0.object?["data"] } == [["orderNumber": "12"]])
        guard case .mapped(let changes) = mapping.outcome else { return }
        #expect(changes.flatMap(\.message.headers).map(\.name) == ["content-type"])
    }

    @Test func aChangeThatWaitsForItsOrderIsStoredWithoutThem() throws {
        let key = try OrderKey("order.com.example/1")
        let record = Self.change(
            [ChangeLog.contentType] + Self.forged,
            value: ChangeLog.event("order.patched", subject: key.description, id: "1", [:]))
        let stored = IncompleteOrder.decode(IncompleteOrder.encode([record]), of: key)
        #expect(stored.map(\.record.headers) == [[ChangeLog.contentType]])
    }
}

extension KafkaRecord {
    fileprivate func with(offset: Int64) -> KafkaRecord {
        KafkaRecord(
            topic: self.topic, partition: self.partition, offset: offset,
            timestampMilliseconds: self.timestampMilliseconds, key: self.key, value: self.value, headers: self.headers)
    }
}
