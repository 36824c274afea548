import Model

/// Formats the facts about an order and their judgement: as text for people and as JSON for programs.
///
/// Names of sources come from publishers, so control characters are shown as escapes.
enum OrderFormatter {
    static func text(_ facts: OrderFacts, _ verdict: OrderVerdict) -> String {
        var lines = [("order", "\(facts.key)"), ("verdict", (verdict.isHealthy ? "healthy: " : "") + verdict.text)]
        lines.append(("Redis", Self.redis(facts.redis)))
        lines.append(("record", Self.record(facts.record)))
        if case .success(let redis) = facts.redis {
            if let order = redis.order, !order.isRemoved { lines += Self.lines(order) }
            lines.append(("devices", "\(redis.devices)"))
        }
        let letters = Self.shown(facts.letters) { letters in
            letters.isEmpty ? "none open" : letters.map { "\($0.code) \($0.position)" }.joined(separator: ", ")
        }
        let waiting = Self.shown(facts.waiting) { waiting in
            waiting.isEmpty
                ? "nothing"
                : waiting.map { "\($0.changes.counted("change")) from \($0.place) on" }
                    .joined(separator: ", ")
        }
        lines += [("letters", letters), ("waiting", waiting)]
        let findings = verdict.findings.flatMap { finding in
            [(finding.severity == .fault ? "FAULT" : "warning", finding.text), ("", "fix: \(finding.fix)")]
        }
        return (lines + findings).map { name, text in
            name + String(repeating: " ", count: 9 - name.utf8.count) + DeadLetterFormatter.safe(text)
        }.joined(separator: "\n")
    }

    private static func redis(_ redis: Result<RedisFacts, Unread>) -> String {
        Self.shown(redis) { facts in
            guard let order = facts.order else { return facts.corruption == nil ? "nothing" : "unreadable" }
            let state = order.isRemoved ? "removed with version" : "version"
            let package =
                order.isRemoved
                ? ""
                : order.isUnpackaged
                    ? "\(order.isCold ? ", cold" : ""), packaged when it is fetched"
                    : order.hasPackage ? ", package with \(Self.assets(order.assets))" : ", no package"
            return "\(state) \(OrderVerdict.name(order.version)), updated "
                + "\(RFC3339.format(epochSeconds: order.modifiedEpochSeconds))\(package)"
        }
    }

    /// Every package has order.json, its manifest and its signature besides.
    private static func assets(_ count: Int) -> String {
        count == 1 ? "1 picture or document" : "\(count) pictures and documents"
    }

    private static func record(_ record: Result<RecordFact?, Unread>) -> String {
        Self.shown(record) { record in
            guard let record else { return "none" }
            let content =
                switch record.content {
                case .version(let version): "version \(OrderVerdict.name(version))"
                case .removed(let version): "removal" + (version.map { ", version \(OrderVerdict.name($0))" } ?? "")
                case .unreadable: "unreadable"
                }
            return "\(content), at \(record.place), \(DeadLetterFormatter.time(record.milliseconds))"
        }
    }

    private static func lines(_ order: StoredFacts) -> [(String, String)] {
        var lines: [(String, String)] = []
        if let token = order.token {
            let text =
                switch token {
                case .minted(let place, let count, let isOfBrand):
                    "minted with secret \(place + 1) of \(count) in the \(isOfBrand ? "brand's own" : "shared") file"
                case .brought: "brought by the order"
                case .unknown: "of no present secret"
                }
            lines.append(("token", text))
        }
        for source in order.sources {
            let owns = source.owns.isEmpty ? "" : "; owns \(source.owns.joined(separator: ", "))"
            let time = source.latestMilliseconds.map { ", last \(DeadLetterFormatter.time($0))" } ?? ""
            let name = source.source.isEmpty ? "(before sources)" : source.source
            lines.append(("source", "\(name): \(source.members.joined(separator: ", "))\(owns)\(time)"))
        }
        for sequence in order.sequences { lines.append(("sequence", "\(sequence.source): \(sequence.number)")) }
        for (name, files) in [("pictures", order.pictures), ("own docs", order.documents)] where files.named > 0 {
            lines.append((name, "\(files.named), \(files.missing) missing, \(files.pending) of them awaited"))
        }
        return lines
    }

    private static func shown<Value>(_ result: Result<Value, Unread>, _ text: (Value) -> String) -> String {
        switch result {
        case .success(let value): text(value)
        case .failure(let reason): "cannot be read: \(reason)"
        }
    }
}

/// One object, whose members are always there; null for what is not known or does not apply.
extension OrderFormatter {
    static func json(_ facts: OrderFacts, _ verdict: OrderVerdict) -> JSON {
        let redis = try? facts.redis.get()
        let order = redis?.order
        return [
            "order": .string("\(facts.key)"), "healthy": .bool(verdict.isHealthy), "verdict": .string(verdict.text),
            "findings": .array(
                verdict.findings.map {
                    [
                        "code": .string($0.code.rawValue), "severity": .string($0.severity.rawValue),
                        "text": .string($0.text), "fix": .string($0.fix),
                    ]
                }),
            "redis": redis.map(Self.json) ?? .null,
            "record": Self.value(facts.record) { record in
                record.map(Self.json) ?? ["state": "absent", "version": .null, "place": .null, "time": .null]
            },
            "token": order?.token.map(Self.json) ?? .null,
            "sources": .array((order?.sources ?? []).map(Self.json)),
            "sequences": .array(
                (order?.sequences ?? []).map { ["source": .string($0.source), "sequence": .string($0.number)] }),
            "pictures": order.map { Self.json($0.pictures) } ?? .null,
            "documents": order.map { Self.json($0.documents) } ?? .null,
            "deadLetters": Self.value(facts.letters) { letters in
                .array(
                    letters.map {
                        [
                            "letter": .string("\($0.position)"), "code": .string($0.code),
                            "time": .string(DeadLetterFormatter.time($0.milliseconds)),
                        ]
                    })
            },
            "lacks": Self.texts(facts.lacks),
            "waiting": Self.value(facts.waiting) { waiting in
                .array(
                    waiting.map {
                        [
                            "from": .string($0.place), "changes": Self.number($0.changes),
                            "time": .string(DeadLetterFormatter.time($0.milliseconds)),
                        ]
                    })
            },
        ]
    }

    private static func json(_ redis: RedisFacts) -> JSON {
        let order = redis.order
        let state = redis.corruption != nil ? "corrupt" : order.map { $0.isRemoved ? "removed" : "present" } ?? "absent"
        return [
            "complete": .bool(redis.isComplete), "state": .string(state),
            "version": order.map { .integer($0.version) } ?? .null,
            "updated": order.map { .string(RFC3339.format(epochSeconds: $0.modifiedEpochSeconds)) } ?? .null,
            "published": order.map { .bool($0.isPublished) } ?? .null,
            "cold": order.map { .bool($0.isCold) } ?? .null,
            "package": order.map { .bool(!$0.isRemoved && $0.hasPackage) } ?? .null,
            "files": order.map { Self.number($0.assets) } ?? .null,
            "missingFiles": order.map { Self.number($0.missingAssets) } ?? .null,
            "signed": order?.isSigned.map { .bool($0) } ?? .null,
            "current": order?.isCurrent.map { .bool($0) } ?? .null,
            "hiddenElements": order.map { Self.texts($0.hiddenElements) } ?? .null,
            "omittedFiles": order.map { Self.texts($0.omittedFiles) } ?? .null,
            "devices": Self.number(redis.devices), "early": Self.number(redis.early),
        ]
    }

    private static func json(_ files: PictureFacts) -> JSON {
        [
            "named": Self.number(files.named), "missing": Self.number(files.missing),
            "pending": Self.number(files.pending), "failures": Self.texts(files.failures),
        ]
    }

    private static func json(_ record: RecordFact) -> JSON {
        let (state, version): (String, Int64?) =
            switch record.content {
            case .version(let version): ("version", version)
            case .removed(let version): ("removed", version)
            case .unreadable: ("unreadable", nil)
            }
        return [
            "state": .string(state), "version": version.map { .integer($0) } ?? .null, "place": .string(record.place),
            "time": .string(DeadLetterFormatter.time(record.milliseconds)),
        ]
    }

    private static func json(_ token: TokenOrigin) -> JSON {
        switch token {
        case .minted(let place, let count, let isOfBrand):
            [
                "origin": "minted", "secret": Self.number(place + 1), "secrets": Self.number(count),
                "file": isOfBrand ? "brand" : "shared",
            ]
        case .brought: ["origin": "brought", "secret": .null, "secrets": .null, "file": .null]
        case .unknown: ["origin": "unknown", "secret": .null, "secrets": .null, "file": .null]
        }
    }

    private static func json(_ source: Contributions.Summary) -> JSON {
        [
            "source": .string(source.source), "members": .array(source.members.map { .string($0) }),
            "owns": .array(source.owns.map { .string($0) }),
            "omitted": .array(source.keeps.map { .string($0) }),
            "time": source.latestMilliseconds.map { .string(DeadLetterFormatter.time($0)) } ?? .null,
        ]
    }

    private static func texts(_ texts: [String]) -> JSON { .array(texts.map { .string($0) }) }

    private static func number(_ number: Int) -> JSON { .integer(Int64(number)) }

    private static func value<Value>(_ result: Result<Value, Unread>, _ json: (Value) -> JSON) -> JSON {
        (try? result.get()).map(json) ?? .null
    }
}
