extension ValidationWalk {
    /// Checks the rules between members, which a schema of one member cannot express.
    ///
    /// Each rule looks only at values of the right kind; the others were reported before.
    /// Source: Wallet Orders §3.1, §3.20
    mutating func checkRules(of order: JSONObject, nowEpochSeconds: Int64?) {
        self.isBeyondSchema = true
        defer { self.isBeyondSchema = false }

        let created = order["createdAt"]?.string.flatMap { RFC3339.instant($0) }
        let updated = order["updatedAt"]?.string.flatMap { RFC3339.instant($0) }
        if let created, let updated, updated < created {
            self.report("must not be before createdAt", path: "$.updatedAt", place: .member("createdAt"))
        }
        if let created, let now = nowEpochSeconds, created.epochSeconds > now + OrderFold.futureLimitSeconds {
            self.report("is more than 24 hours in the future", path: "$.createdAt", place: .member("createdAt"))
        }
        if let payment = order["payment"]?.object {
            if payment["status"] == nil, order["schemaVersion"]?.number?.double == 1 {
                // Wallet refuses such an order. Source: Wallet Orders §3.1
                self.report(
                    "is missing, schemaVersion 1 needs it", path: "$.payment.status",
                    place: .member("payment"), .member("status"))
            }
            self.checkTotal(of: payment)
        }
        self.checkUnique("fulfillmentIdentifier", in: order["fulfillments"]?.array ?? [], "$.fulfillments")
        let returns = order["returns"]?.array ?? []
        self.checkUnique("returnIdentifier", in: returns, "$.returns")
        for (index, element) in returns.enumerated() {
            guard let initiated = element.object?["initiatedAt"]?.string.flatMap({ RFC3339.instant($0) }),
                let dropOff = element.object?["dropOffBy"]?.string.flatMap({ RFC3339.instant($0) })
            else { continue }
            if dropOff < initiated {
                self.report(
                    "must not be before initiatedAt", path: "$.returns[\(index)].dropOffBy",
                    place: .member("returns"), .element(index), .member("dropOffBy"))
            }
        }
    }

    /// Checks our own rule that the summary items add up to the total. An empty list says nothing about it.
    private mutating func checkTotal(of payment: JSONObject) {
        guard let total = payment["total"]?.object?["amount"]?.string, isDecimal(total.utf8.span),
            let items = payment["summaryItems"]?.array, !items.isEmpty
        else { return }
        var sum = DecimalSum()
        for item in items {
            guard let amount = item.object?["value"]?.object?["amount"]?.string, isDecimal(amount.utf8.span) else {
                return
            }
            sum.add(amount)
        }
        if !sum.equals(total) {
            self.report(
                "must be what the summaryItems add up to: \(clipped(sum.text)), it is \"\(clipped(total))\"",
                path: "$.payment.total.amount", place: .member("payment"), .member("total"))
        }
    }

    private mutating func checkUnique(_ member: String, in elements: [JSON], _ path: String) {
        guard elements.count > 1 else { return }
        var seen: Set<ByteText> = []
        seen.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            guard case .string(let identifier)? = element.object?[member] else { continue }
            if !seen.insert(ByteText(identifier)).inserted {
                self.report(
                    "is \"\(clipped(identifier))\", which another one has already", path: "\(path)[\(index)].\(member)")
            }
        }
    }
}
