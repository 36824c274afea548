/// The files that changes name by URL.
extension OrderFold {
    /// Returns the URLs of receipts and labels that can never be fetched, in a document or a part of one.
    ///
    /// Of a fold those that a change sends count, and not those that an order has already: the brand may have allowed
    /// their hosts then.
    func linkFaults(in document: JSONObject) -> [Violation] {
        var faults: [Violation] = []
        document.forEachOwnDocument { name, place in
            guard faults.count < OrderValidator.limit, name.hasPrefix("https://"),
                let fault = self.rules.linkFault(name)
            else { return }
            faults.append(Violation(path: place.text, message: fault, place: place.steps, isBeyondSchema: true))
        }
        return faults
    }

    /// Returns a change with the URLs that an order has in place of others that lead to the same files: a new signature
    /// alone is no news.
    ///
    /// - Parameter renewed: gets those others, by the URLs that the order has.
    func keepingLinks(
        of document: OrderDocument?, in change: OrderChange, renewed: inout [String: String]
    ) -> OrderChange {
        guard let identity = self.rules.linkIdentity, let document, var sent = change.sent else { return change }
        let links = sent.links
        guard !links.isEmpty else { return change }
        let present = document.members.links
        let urls = Set(present.map(\.url))
        let known = Dictionary(present.map { (Link($0, identity), $0.url) }) { first, _ in first }
        var isChanged = false
        for link in links where !urls.contains(link.url) {
            guard let url = known[Link(link, identity)] else { continue }
            sent.set(.string(url), at: link.place.steps[...])
            renewed[url] = link.url
            isChanged = true
        }
        guard isChanged else { return change }
        var change = change
        change.sent = sent
        return change
    }

    /// A picture or document, whatever its URL.
    private struct Link: Hashable {
        let identity: String
        let isPicture: Bool

        init(_ link: (url: String, place: FilePlace), _ identity: (String, Bool) -> String) {
            self.isPicture = link.place.isPicture
            self.identity = identity(link.url, link.place.isPicture)
        }
    }
}

extension JSONObject {
    /// The files that it names by URL.
    fileprivate var links: [(url: String, place: FilePlace)] {
        var links: [(url: String, place: FilePlace)] = []
        self.forEachFile { name, place in
            if name.hasPrefix("https://") { links.append((name, place)) }
        }
        return links
    }
}

extension OrderChange {
    /// The document, or the part of one, that it sends; nil if it sends none.
    var sent: JSONObject? {
        get {
            switch self.kind {
            case .replaced(let document): document.members
            case .merged(let data, _): data
            case .patched(let patch): patch
            case .fulfillmentUpdated(_, let element): ["fulfillments": [.object(element)]]
            case .returnUpdated(_, let element): ["returns": [.object(element)]]
            case .announced, .removed: nil
            }
        }
        set {
            guard let sent = newValue else { return }
            func element(_ name: String) -> JSONObject { sent[name]?.array?.first?.object ?? JSONObject() }
            switch self.kind {
            case .replaced: self.kind = .replaced(OrderDocument(members: sent))
            case .merged(_, let owns): self.kind = .merged(sent, owns: owns)
            case .patched: self.kind = .patched(sent)
            case .fulfillmentUpdated(let identifier, _):
                self.kind = .fulfillmentUpdated(identifier: identifier, element("fulfillments"))
            case .returnUpdated(let identifier, _):
                self.kind = .returnUpdated(identifier: identifier, element("returns"))
            case .announced, .removed: break
            }
        }
    }
}
