import FoundationEssentials
import Kafka
import Lua
import Model
import Store

/// Maps records of sources: decides which of them a process gets, looks up the parcels that programs ask for, and makes
/// changes of the answers.
struct SourceMapper: Sendable {
    /// A record that was mapped, or the reason why it must wait.
    enum Mapped: Sendable {
        case mapped(SourceMapping, took: Duration)
        case waits(String)
    }

    let mapper: any RecordMapper
    /// The topic for changes.
    let topic: String
    /// The orders of parcels; nil: no order has one.
    var parcels: ParcelIndex?

    /// Maps records of a source.
    ///
    /// - Parameter isDecoded: true for values of a format with schemas that are events, as in a test.
    /// - Returns: results for the first records; the others are to be given again.
    func map(
        _ records: [KafkaRecord], _ source: Source, isDecoded: Bool = false, nowEpochSeconds now: Int64
    ) async -> [Mapped] {
        var tasks: [MapperTask] = []
        var answers: [MapperAnswer?] = []
        for record in records {
            var task = MapperTask(record)
            task.schema = isDecoded ? nil : source.schema(of: record)
            task.isDecoded = isDecoded
            tasks.append(task)
            answers.append(source.verdict(on: record))
        }
        var failures: [Int: String] = [:]
        var open = answers.indices.filter { answers[$0] == nil }
        while !open.isEmpty {
            let found: [MapperAnswer]
            do throws(MapperUnavailable) { found = try await self.mapper.map(open.map { tasks[$0] }, source) } catch {
                for index in open { failures[index] = "\(error)" }
                break
            }
            var again: [Int] = []
            for (index, answer) in zip(open, found) {
                tasks[index].spent += answer.spent
                answers[index] = answer
                if case .wanted = answer.outcome, self.parcels != nil, tasks[index].parcels.count < Parcel.limit {
                    again.append(index)
                }
            }
            // Of the first round those are given again by the caller.
            let rest = open.dropFirst(found.count).filter { answers[$0] != nil }
            open = await self.lookUp(again, &tasks, answers, source, &failures) + rest
        }
        var mapped: [Mapped] = []
        for (index, record) in records.enumerated() {
            if let reason = failures[index] {
                mapped.append(.waits(reason))
            } else if let answer = answers[index] {
                let start = ContinuousClock.now
                let mapping = SourceMapping(answer, record, source, topic: self.topic, nowEpochSeconds: now)
                mapped.append(.mapped(mapping, took: .microseconds(tasks[index].spent) + (.now - start)))
            } else {
                break
            }
        }
        return mapped
    }

    /// Looks up the parcels that tasks want.
    ///
    /// - Returns: the tasks to do again.
    private func lookUp(
        _ places: [Int], _ tasks: inout [MapperTask], _ answers: [MapperAnswer?], _ source: Source,
        _ failures: inout [Int: String]
    ) async -> [Int] {
        guard let index = self.parcels, !places.isEmpty else { return [] }
        var again: [Int] = []
        for place in places {
            guard case .wanted(let parcels, _)? = answers[place]?.outcome else { continue }
            let wanted = parcels.filter { tasks[place].parcels[$0] == nil }
            guard !wanted.isEmpty else { continue }
            do throws(StoreError) {
                let owners = try await index.owners(of: wanted)
                for parcel in wanted {
                    tasks[place].parcels.updateValue(owners[parcel].flatMap { source.owner($0) }, forKey: parcel)
                }
                again.append(place)
            } catch {
                failures[place] = "\(error)"
            }
        }
        return again
    }

    /// Maps one record, with the schema that it needs.
    ///
    /// - Throws: `SourceError` if it cannot be mapped now.
    func map(
        _ record: KafkaRecord, _ source: Source, schemas mapper: Mapper, nowEpochSeconds now: Int64
    ) async throws(SourceError) -> SourceMapping {
        if let fault = try await source.fetchSchema(of: record, mapper) {
            return SourceMapping(MapperAnswer(fault), record, source, topic: self.topic, nowEpochSeconds: now)
        }
        switch await self.map([record], source, nowEpochSeconds: now).first {
        case .mapped(let mapping, _)?: return mapping
        case .waits(let reason)?: throw SourceError(reason)
        case nil: throw SourceError("\(source.name): the record was not mapped")
        }
    }

    /// Maps a record again whose dead letter is replayed.
    func replay(
        _ record: KafkaRecord, _ table: SourceTable?, schemas mapper: Mapper
    ) async -> Result<[KafkaMessage], ChangeFault> {
        guard let source = table?.source(of: record.topic) else {
            return .failure(ChangeFault(code: .mapFailed, reason: "no source reads \(record.topic)"))
        }
        do throws(SourceError) {
            let now = Int64(Date().timeIntervalSince1970)
            switch try await self.map(record, source, schemas: mapper, nowEpochSeconds: now).outcome {
            case .ignored: return .success([])
            case .refused(let fault): return .failure(fault)
            case .mapped(let changes): return .success(changes.map(\.message))
            }
        } catch {
            return .failure(ChangeFault(code: .mapUndecodable, reason: "\(error)"))
        }
    }
}

extension Source {
    /// Fetches the schema that a record needs.
    ///
    /// - Returns: why there is none.
    /// - Throws: `SourceError` if the registry cannot be asked.
    func fetchSchema(of record: KafkaRecord, _ mapper: Mapper) async throws(SourceError) -> ChangeFault? {
        guard let registry = self.registry, let identifier = self.schema(of: record) else { return nil }
        switch await registry.schema(identifier, mapper, of: self.name) {
        case .schema: return nil
        case .missing(let fault): return fault
        case .away(let reason): throw SourceError(reason)
        }
    }
}
