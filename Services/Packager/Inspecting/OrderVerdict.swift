import Brands
import FoundationEssentials
import Model

/// A finding about one order, with what to do.
struct OrderFinding: Hashable, Sendable {
    enum Severity: String, Sendable {
        /// The order is not as it should be.
        case fault
        /// The order works, and something should be known or done.
        case warning
    }

    /// The kinds of findings, for programs.
    enum Code: String, CaseIterable, Sendable {
        case redisUnread = "redis-unread"
        case recordUnread = "record-unread"
        case lettersUnread = "letters-unread"
        case waitingUnread = "waiting-unread"
        case viewIncomplete = "view-incomplete"
        case brandUnknown = "brand-unknown"
        case brandFailing = "brand-failing"
        case certificateEnded = "certificate-ended"
        case certificateEnds = "certificate-ends"
        case notFound = "not-found"
        case notCreated = "not-created"
        case redisMissing = "redis-missing"
        case redisBehind = "redis-behind"
        case recordMissing = "record-missing"
        case recordBehind = "record-behind"
        case recordLost = "record-lost"
        case recordUnreadable = "record-unreadable"
        case partitionsAdded = "partitions-added"
        case stateCorrupt = "state-corrupt"
        case packageMissing = "package-missing"
        case assetsMissing = "assets-missing"
        case packageOld = "package-old"
        case signatureOld = "signature-old"
        case tokenRetired = "token-retired"
        case tokenUnknown = "token-unknown"
        case elementsHidden = "elements-hidden"
        case membersOmitted = "members-omitted"
        case filesOmitted = "files-omitted"
        case picturesPending = "pictures-pending"
        case picturesFailing = "pictures-failing"
        case picturesMissing = "pictures-missing"
        case documentsPending = "documents-pending"
        case documentsFailing = "documents-failing"
        case documentsMissing = "documents-missing"
        case guidelineUnmet = "guideline-unmet"
        case deadLetters = "dead-letters"
        case earlyChanges = "early-changes"
        case changesWait = "changes-wait"
        case changesComing = "changes-coming"
    }

    let code: Code
    let severity: Severity
    let text: String
    let fix: String
}

/// The judgement of one order: a function of what was found.
struct OrderVerdict: Sendable {
    /// The age from which a change that is not applied counts as waiting, in milliseconds: that of the alert
    /// WaybillOrdersParked.
    static let patienceMilliseconds: Int64 = 600_000
    /// The days before the end of a certificate at which warnings begin. Source: Wallet Orders §7
    static let certificateDays = 30.0
    /// The most dead letters that a text names.
    private static let namedLetters = 5

    private(set) var findings: [OrderFinding] = []
    /// One sentence.
    private(set) var text = ""
    private let facts: OrderFacts

    var faults: [OrderFinding] { self.findings.filter { $0.severity == .fault } }
    var isHealthy: Bool { self.faults.isEmpty }

    init(_ facts: OrderFacts) {
        self.facts = facts
        let state = self.judgeState()
        self.judgeBrand()
        if case .success(let redis) = facts.redis, let order = redis.order, !order.isRemoved { self.judge(order) }
        self.judgeChanges()
        self.text = self.faults.first?.text ?? state
    }

    private mutating func fault(_ code: OrderFinding.Code, _ text: String, fix: String) {
        self.findings.append(OrderFinding(code: code, severity: .fault, text: text, fix: fix))
    }

    private mutating func warning(_ code: OrderFinding.Code, _ text: String, fix: String) {
        self.findings.append(OrderFinding(code: code, severity: .warning, text: text, fix: fix))
    }
}

/// Redis beside the last record.
extension OrderVerdict {
    private var restore: String {
        "waybill-packager restore --brand \(self.facts.key.orderType) --order \(self.facts.key.order)"
    }

    private var announce: String { "publish waybill.order.announced for it, which publishes its version again" }

    /// - Returns: what is well.
    private mutating func judgeState() -> String {
        if case .failure(let reason) = self.facts.redis {
            self.fault(.redisUnread, "Redis cannot be read: \(reason)", fix: "see WAYBILL_REDIS_URL, and Redis")
        }
        if case .failure(let reason) = self.facts.record {
            self.fault(
                .recordUnread, "waybill.orders cannot be read: \(reason)", fix: "see WAYBILL_KAFKA_BOOTSTRAP, and Kafka"
            )
        }
        guard case .success(let redis) = self.facts.redis, case .success(let record) = self.facts.record else {
            return ""
        }
        if !redis.isComplete {
            self.fault(
                .viewIncomplete, "Redis is being restored, so what it lacks may still come",
                fix: "wait until /readyz of a packager is green, then look again")
        }
        if let reason = redis.corruption {
            self.fault(
                .stateCorrupt, "the order in Redis cannot be read: \(reason)",
                fix: "\(self.restore); if that leaves it so, remove the order's key in Redis and run it again; then "
                    + "replay its dead letters")
            return ""
        }
        if case .unreadable(let reason)? = record?.content {
            self.fault(
                .recordUnreadable, "the last record (\(record?.place ?? "")) cannot be read: \(reason)",
                fix: "find out who else writes to waybill.orders; then \(self.announce)")
            return ""
        }
        guard let order = redis.order else { return self.judgeMissing(redis, record) }
        return self.compare(order, redis, record)
    }

    /// An order that Redis does not have.
    private mutating func judgeMissing(_ redis: RedisFacts, _ record: RecordFact?) -> String {
        switch record?.content {
        case .version(let version)?:
            self.fault(
                .redisMissing,
                "Redis does not have the order, the last record (\(record?.place ?? "")) has version "
                    + Self.name(version),
                fix: redis.isComplete ? self.restore : "wait for the end of the restore")
        case .removed(let version)?:
            return "removed" + (version.map { " with version \(Self.name($0))" } ?? "")
        case .unreadable?: break
        case nil where redis.wasRemoved: return "removed, within the last 90 days"
        case nil:
            let changes = (try? self.facts.waiting.get())?.reduce(0) { $0 + $1.changes } ?? 0
            let letters = (try? self.facts.letters.get())?.count ?? 0
            guard changes + letters + redis.early == 0 else {
                self.fault(
                    .notCreated,
                    "the order does not exist, only changes of it: \(changes) that wait, "
                        + "\(letters.counted("dead letter")), \(redis.early) kept until it is created\(self.lack)",
                    fix: "look at those below; an order is created by waybill.order.replaced or waybill.order.merged")
                break
            }
            self.fault(
                .notFound,
                "not found anywhere: neither Redis nor Kafka has the order, a change or a dead letter of it",
                fix: "compare type and identifier with what the publisher sends; if its change was deleted by "
                    + "retention, publish it again")
        }
        return ""
    }

    private mutating func compare(_ order: StoredFacts, _ redis: RedisFacts, _ record: RecordFact?) -> String {
        let mine = "\(order.isRemoved ? "the removal, version" : "version") \(Self.name(order.version))"
        let agreed =
            order.isRemoved
            ? "removed with version \(Self.name(order.version))"
            : "Redis and the last record have version \(Self.name(order.version))"
        guard let record else {
            // Kafka deletes the tombstone of a removed order.
            if order.isRemoved { return agreed }
            if let counted = redis.partitions, let now = self.facts.partitions, now > counted {
                self.fault(
                    .partitionsAdded,
                    "Redis has \(mine), and the key's partition has no record: waybill.orders has \(now) partitions, "
                        + "and its keys are in \(counted)",
                    fix: "waybill-packager rekey")
            } else {
                self.fault(
                    .recordMissing, "Redis has \(mine), waybill.orders has no record: a loss of Redis would lose it",
                    fix: self.announce)
            }
            return ""
        }
        let (isRemoved, version): (Bool, Int64?) =
            switch record.content {
            case .version(let version): (false, version)
            case .removed(let version): (true, version)
            case .unreadable: (false, nil)
            }
        if isRemoved == order.isRemoved, version == nil || version == order.version { return agreed }
        let other = (isRemoved ? "a removal" : "version") + (version.map { " \(Self.name($0))" } ?? "")
        let both = "Redis has \(mine), the last record (\(record.place)) \(isRemoved ? "is " : "")\(other)"
        // A tombstone without a version ends what was modified before it.
        let isRedisBehind =
            version.map { $0 >= order.version } ?? (record.milliseconds / 1000 >= order.modifiedEpochSeconds)
        if isRedisBehind {
            self.fault(
                .redisBehind, both,
                fix: redis.isComplete ? self.restore : "wait for the end of the restore")
        } else if order.isPublished {
            self.fault(
                .recordLost, "\(both), though Kafka acknowledged the newer one",
                fix: "see if WAYBILL_KAFKA_BOOTSTRAP names the packagers' cluster and if the topic lost records; then "
                    + self.announce)
        } else {
            self.fault(
                .recordBehind, "\(both): the newer one is not published yet",
                fix: "look again in a moment; if it stays so, see the packagers' log, and \(self.announce)")
        }
        return ""
    }

    /// Returns a version for people: its place among the order's versions, and the number.
    static func name(_ version: Int64) -> String {
        let ordinal = version & (1 << OrderState.ordinalBits - 1)
        return ordinal == version ? "\(version)" : "\(ordinal) (\(version))"
    }
}

/// The brand, the package and the token.
extension OrderVerdict {
    private mutating func judgeBrand() {
        let type = self.facts.key.orderType
        switch self.facts.brand {
        case .unknown:
            self.fault(
                .brandUnknown, "no brand has the order type \(type): changes become dead letters unknown-order-type",
                fix: "correct the key or WAYBILL_BRANDS, or create the brand's directory")
        case .failing(let reason):
            self.fault(
                .brandFailing, "the brand cannot be loaded, so its changes wait: \(reason)",
                fix: "correct the file; packagers load it by themselves")
        case .loaded(let certificates):
            for certificate in certificates {
                let days = certificate.days(fromEpochSeconds: self.facts.nowMilliseconds / 1000)
                guard days < Self.certificateDays else { continue }
                let name = "the brand's \(certificate.use.rawValue) certificate"
                let fix = "replace it, then waybill-packager resign --brand \(type)"
                if days < 0 {
                    self.fault(.certificateEnded, "\(name) expired \(Int(-days).counted("day")) ago", fix: fix)
                } else {
                    self.warning(.certificateEnds, "\(name) expires in \(Int(days).counted("day"))", fix: fix)
                }
            }
        }
    }

    private mutating func judge(_ order: StoredFacts) {
        let type = self.facts.key.orderType
        let touch = "publish waybill.order.announced with \"touch\": true for it, which packages it again"
        if order.isUnpackaged {
            // Its package is made when somebody asks for it.
        } else if !order.hasPackage {
            self.fault(.packageMissing, "state without package: the gateway cannot serve the order", fix: touch)
        } else if order.missingAssets > 0 {
            self.fault(
                .assetsMissing,
                "Redis lacks \(order.missingAssets) of the package's \(order.assets.counted("file")): the gateway "
                    + "cannot serve the order",
                fix: touch)
        } else if order.isSigned == false {
            self.warning(
                .signatureOld, "the package was signed with another certificate than the brand has now",
                fix: "waybill-packager resign --brand \(type)")
        } else if order.isCurrent == false {
            self.warning(
                .packageOld, "the brand's files or defaults changed since the order was packaged",
                fix: "waybill-packager resign --brand \(type)")
        }
        switch order.token {
        case .minted(let place, let count, _)? where place > 0:
            self.warning(
                .tokenRetired, "the token is of a retired secret, number \(place + 1) of \(count) in the file",
                fix: "waybill-packager retoken --brand \(type)")
        case .unknown?:
            self.warning(
                .tokenUnknown, "the token is of no present secret: a secret was removed, or the order brought it",
                fix: "if a secret was removed: waybill-packager retoken --brand \(type) --withdrawn FILE")
        case .minted?, .brought?, nil: break
        }
        if !order.hiddenElements.isEmpty {
            self.fault(
                .elementsHidden, "hidden until they are complete: \(order.hiddenElements.listed(separator: "; "))",
                fix: "have a source send what they lack; a status word that a source's table lacks sets none")
        }
        for source in order.sources where !source.keeps.isEmpty {
            self.warning(
                .membersOmitted,
                "what \(source.source) sent last was not valid, so an older value or none is shown: "
                    + source.keeps.listed(),
                fix: "see the record with waybill-packager ingest map, and mend the source's program or the system "
                    + "behind it; its next event replaces them")
        }
        if !order.omittedFiles.isEmpty {
            self.fault(
                .filesOmitted, "left out of the package: \(order.omittedFiles.listed(separator: "; "))",
                fix: "correct the name in the order, or add the file to the brand's assets, then \(touch)")
        }
        self.judge(
            order.pictures, ("picture", "waybill_picture_failures_total"),
            (.picturesFailing, .picturesPending, .picturesMissing),
            isUnpackaged: order.isUnpackaged, touch)
        for guideline in OrderGuideline.allCases {
            let places = order.guidelines.filter { $0.guideline == guideline }.map(\.path)
            guard !places.isEmpty else { continue }
            self.warning(
                .guidelineUnmet, "Apple's guidelines, \(guideline.code): \(places.listed())", fix: guideline.advice)
        }
        self.judge(
            order.documents, ("document", "waybill_own_document_failures_total"),
            (.documentsFailing, .documentsPending, .documentsMissing),
            isUnpackaged: order.isUnpackaged, touch)
    }

    private mutating func judge(
        _ pictures: PictureFacts, _ names: (noun: String, metric: String),
        _ codes: (failing: OrderFinding.Code, pending: OrderFinding.Code, missing: OrderFinding.Code),
        isUnpackaged: Bool, _ touch: String
    ) {
        let noun = names.noun
        let all = pictures.named.counted(noun)
        let reasons = pictures.failures.isEmpty ? "" : ": \(pictures.failures.listed(separator: "; "))"
        if pictures.failing > 0 {
            self.fault(
                codes.failing, "\(pictures.failing) of \(all) cannot be fetched\(reasons)",
                fix: "repair the \(noun) or its host; a packager tries again by itself")
        }
        let pending = pictures.pending - pictures.failing
        if pending > 0 {
            self.warning(
                codes.pending, "the order waits for \(pending) of \(all)",
                fix: "nothing, a packager fetches them; see \(names.metric) if they do not come")
        }
        // Of an order without a package none was asked for.
        let lost = isUnpackaged ? pictures.givenUp : pictures.missing - pictures.pending
        if lost > 0 {
            self.findings.append(
                OrderFinding(
                    code: codes.missing, severity: pictures.givenUp > 0 ? .fault : .warning,
                    text: "left out since they could not be fetched: \(lost) of \(all)\(reasons)",
                    fix: "repair the \(noun)s' host, then \(touch)"))
        }
    }
}

/// The changes that are not applied.
extension OrderVerdict {
    /// The reasons why the changes that wait make no order, as an end of a sentence; empty if none is known.
    private var lack: String {
        self.facts.lacks.isEmpty ? "" : "; to make it, they lack: \(self.facts.lacks.listed(separator: "; "))"
    }

    /// The remedy for changes that wait; nil if no reason is known.
    private var lackFix: String? {
        guard !self.facts.lacks.isEmpty else { return nil }
        let isMerchant = self.facts.lacks.contains { $0.hasPrefix("$.merchant ") }
        return "send it, or correct it\(isMerchant ? ", or give brand.json a defaults.merchant" : ""): the changes are "
            + "tried again at once"
    }

    private mutating func judgeChanges() {
        let key = self.facts.key
        switch self.facts.letters {
        case .failure(let reason):
            self.fault(
                .lettersUnread, "waybill.dead-letters cannot be read: \(reason)", fix: "see Kafka, and the rights there"
            )
        case .success(let letters) where letters.isEmpty: break
        case .success(let letters):
            let named = letters.suffix(Self.namedLetters).map { "\($0.code) \($0.position)" }.joined(separator: ", ")
            self.fault(
                .deadLetters,
                "\(letters.count.counted("open dead letter")): "
                    + (letters.count > Self.namedLetters ? "… " : "") + named,
                fix: "waybill-packager dead-letters show \(letters.last.map { "\($0.position)" } ?? ""); mend the "
                    + "cause; waybill-packager dead-letters replay --order \(key)")
        }
        if case .success(let redis) = self.facts.redis, redis.early > 0, redis.order?.isRemoved ?? true {
            self.warning(
                .earlyChanges, "kept until the order is created: \(redis.early.counted("change"))",
                fix: "publish the order: they are applied with it")
        }
        switch self.facts.waiting {
        case .failure(let reason):
            self.fault(
                .waitingUnread, "it is not known what waits: \(reason)",
                fix: "see Kafka, and the right Describe on the packagers' group")
        case .success(let waiting):
            guard let oldest = waiting.min(by: { $0.milliseconds < $1.milliseconds }) else { break }
            let changes = waiting.reduce(0) { $0 + $1.changes }
            let isLate = self.facts.nowMilliseconds - oldest.milliseconds >= Self.patienceMilliseconds
            let text = "\(changes.counted("change")) not applied yet, from \(oldest.place) on\(self.lack)"
            if isLate {
                self.fault(
                    .changesWait, "\(text), since \(DeadLetterFormatter.time(oldest.milliseconds))",
                    fix: self.lackFix ?? "see the packagers' log for the order, the brand, and waybill_waiting_records")
            } else {
                self.warning(.changesComing, text, fix: self.lackFix ?? "look again in a moment")
            }
        }
    }
}
