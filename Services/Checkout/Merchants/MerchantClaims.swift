import Model

/// Something that tells whose a request is, and so belongs to one merchant.
struct MerchantClaim: Hashable, Sendable {
    /// Its name in Redis: `origin:https://shop.example.com`.
    let name: String
    /// Its place in merchant.json, for people.
    let text: String

    private init(_ name: String, _ text: String) {
        self.name = name
        self.text = text
    }

    static func origin(_ origin: PageOrigin) -> MerchantClaim { Self("origin:\(origin)", "$.origins: \(origin)") }

    /// - Parameter digest: in hexadecimal.
    static func key(digest: String, name: String) -> MerchantClaim { Self("key:\(digest)", "$.keys: the key \(name)") }

    static func webhook(_ name: String) -> MerchantClaim { Self("webhook:\(name)", "$.webhooks: \(name)") }

    /// The topic of a webhook: a source's program cannot tell whose an event is.
    static func topic(_ topic: String) -> MerchantClaim { Self("topic:\(topic)", "$.webhooks: the topic \(topic)") }
}

extension Merchant {
    var claims: [MerchantClaim] {
        self.pages.flatMap(\.claims) + self.keys.flatMap(\.claims) + self.webhooks.flatMap(\.claims)
    }

    /// Returns this merchant without the pages, keys and webhooks that it does not hold.
    func keeping(_ isHeld: (MerchantClaim) -> Bool) -> Merchant {
        var merchant = self
        merchant.pages.removeAll { !$0.claims.allSatisfy(isHeld) }
        merchant.keys.removeAll { !$0.claims.allSatisfy(isHeld) }
        merchant.webhooks.removeAll { !$0.claims.allSatisfy(isHeld) }
        return merchant
    }
}

/// Decides which merchant holds what several claim. No I/O, no clock.
///
/// - A claim with a holder stays with it until its directory is missing twice in a row, or it gives the claim up.
///   Another merchant that claims it is not loaded; one that is in use already goes on without it.
/// - A claim without a holder is taken by the one merchant that claims it. Two that do so are served without it, until
///   one of them is gone.
/// - Redis has the holders for all replicas and for the next start: what is written there wins.
struct MerchantClaims: Sendable {
    /// The looks after which a holder is gone that was never in the directory here: another replica may see the
    /// directory as it will be here in a minute or two.
    static let foreignLooks = 24
    private static let looks = 2
    /// The most merchants that a sentence names.
    private static let namedLimit = 20

    /// The holders by the name of the claim.
    private(set) var holders: [String: String]
    /// The holders in Redis when it answered last.
    private var written: [String: String]
    /// The former holders of the claims that were given up since then.
    private(set) var released: [String: String] = [:]
    /// The merchants in the directory at the last look, loaded or not.
    private var present: Set<String> = []
    /// The holders that were in the directory, or written down at the start.
    private var known: Set<String>
    /// The number of looks at which a holder was missing.
    private var absences: [String: Int] = [:]

    /// - Parameter written: the holders in Redis; nil if it does not answer.
    init(written: [String: String]? = nil) {
        self.holders = written ?? [:]
        self.written = self.holders
        self.known = Set(self.holders.values)
    }

    /// The holders that are to be written down.
    var taken: [String: String] {
        self.holders.filter { self.written[$0.key] != $0.value && self.present.contains($0.value) }
    }

    /// Processes the list of the directory, before merchants are loaded.
    ///
    /// - Parameters:
    ///   - names: empty if the directory cannot be read, which frees nothing.
    ///   - isForced: true if an operator has declared the files complete.
    mutating func look(_ names: [String], isForced: Bool) {
        guard !names.isEmpty else { return }
        self.present = Set(names)
        let holding = Set(self.holders.values)
        self.known.formUnion(self.present)
        self.known.formIntersection(holding.union(self.present))
        self.absences = self.absences.filter { holding.contains($0.key) && !self.present.contains($0.key) }
        for name in holding.subtracting(self.present) { self.absences[name, default: 0] += 1 }
        let gone = self.absences.filter { name, looks in
            isForced || looks >= (self.known.contains(name) ? Self.looks : Self.foreignLooks)
        }
        for (claim, holder) in self.holders where gone[holder] != nil { self.release(claim) }
    }

    /// Returns the reason to refuse a merchant that claims what another one holds.
    ///
    /// - Parameter isInUse: true for a merchant that is in use.
    func refusal(of merchant: Merchant, isInUse: (String) -> Bool) -> MerchantError? {
        for claim in merchant.claims {
            guard let holder = self.holders[claim.name], holder != merchant.name else { continue }
            guard self.present.contains(holder) || isInUse(holder) else { continue }
            return MerchantError("\(merchant.name): \(claim.text) belongs to \(holder) already")
        }
        return nil
    }

    /// Distributes what the loaded merchants claim.
    ///
    /// - Parameter merchants: by name.
    /// - Returns: the merchants with what each of them holds, and by name the reason why one is served in part.
    mutating func settle(_ merchants: [String: Merchant]) -> (served: [Merchant], refusals: [String: MerchantError]) {
        var claimants: [String: [String]] = [:]
        for merchant in merchants.values {
            for name in Set(merchant.claims.map(\.name)) { claimants[name, default: []].append(merchant.name) }
        }
        for (claim, holder) in self.holders where merchants[holder] != nil {
            if claimants[claim]?.contains(holder) != true { self.release(claim) }
        }
        for (claim, names) in claimants where self.holders[claim] == nil && names.count == 1 {
            self.holders[claim] = names[0]
        }
        var served: [Merchant] = []
        var refusals: [String: MerchantError] = [:]
        for merchant in merchants.values {
            let isHeld = { [holders] (claim: MerchantClaim) in holders[claim.name] == merchant.name }
            served.append(merchant.keeping(isHeld))
            guard let claim = merchant.claims.first(where: { !isHeld($0) }) else { continue }
            let others = claimants[claim.name, default: []].filter { $0 != merchant.name }.sorted()
                .prefix(Self.namedLimit).joined(separator: ", ")
            let problem =
                self.holders[claim.name].map { holder in
                    self.present.contains(holder)
                        ? "belongs to \(holder) already" : "belongs to \(holder), whose directory is missing"
                } ?? "is claimed by \(others), too, and belongs to none of them: remove it from all but one"
            refusals[merchant.name] = MerchantError("\(merchant.name): \(claim.text) \(problem)")
        }
        return (served, refusals)
    }

    /// Processes the answer of Redis to what was taken and released.
    mutating func receive(written: [String: String], released: [String: String]) {
        self.written = written
        self.released = self.released.filter { released[$0.key] != $0.value }
        self.holders = self.holders.filter { self.present.contains($0.value) }.merging(
            written.filter { self.released[$0.key] != $0.value }
        ) { $1 }
    }

    private mutating func release(_ claim: String) {
        self.released[claim] = self.holders.removeValue(forKey: claim)
    }
}
