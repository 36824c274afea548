public import Model
public import Redis

/// The own documents of orders: they are in the hashes of their orders, and end with the packages.
extension Pictures {
    /// The outcome of `saveDocument`.
    public enum DocumentOutcome: Hashable, Sendable {
        /// It is stored, and so many bytes ended of documents that the order names no longer.
        case saved(ended: Int64)
        /// The order has no package any more: nothing is stored.
        case unpackaged
        /// The documents of the order would have more bytes than they may have: nothing is stored.
        case overfull
    }

    /// Replaces the stored data of a document, if its order has a package.
    ///
    /// - Parameters:
    ///   - entry: the ready ZIP entry of a document that was fetched; nil after a failure.
    ///   - named: the identifiers of all documents that the order names. Others end, unless its package has them.
    ///   - limit: the most bytes of all documents of the order.
    public func saveDocument(
        _ record: PictureRecord, for key: PictureKey, entry: [UInt8]?, named: [String], limit: Int
    ) async throws(StoreError) -> DocumentOutcome {
        guard let order = key.orderKey else { return .unpackaged }
        let reply = try await self.run(
            RedisInvocation(
                StoreScripts.saveDocument, keys: [StoreKeys.order(order)],
                arguments: [
                    .string(key.url), .string(" \(named.joined(separator: " ")) "), .integer(Int64(limit)),
                    .string(entry == nil ? "" : record.content?.asset ?? ""), .bytes(entry ?? []),
                ] + record.fields), "writing a document")
        switch reply {
        case .integer(-2): return .unpackaged
        case .integer(-1): return .overfull
        case .integer(let ended): return .saved(ended: ended)
        default: throw StoreError(.corrupt, "writing a document: an unexpected reply")
        }
    }
}

/// The bytes of the own documents in Redis, by order type.
///
/// A sum that is kept beside the orders, which may be on other servers of a cluster: a crash, and a package that was
/// dropped, leave it too high until the next sweep, which counts them.
public struct OwnDocumentBytes: Sendable {
    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// - Parameter bytes: negative for documents that ended.
    /// - Returns: the sum.
    @discardableResult
    public func add(_ bytes: Int64, of type: OrderTypeIdentifier) async throws(StoreError) -> Int64 {
        let addition = RedisInvocation(
            StoreScripts.addBytes, keys: [StoreKeys.documentBytes],
            arguments: [.string(type.rawValue), .integer(bytes)])
        return try await self.redis.reply(to: addition, "counting documents").integer ?? 0
    }

    public func all() async throws(StoreError) -> [OrderTypeIdentifier: Int64] {
        let command = RedisCommand("HGETALL", .string(StoreKeys.documentBytes))
        let pairs = try await self.redis.reply(to: command, "counting documents").array ?? []
        var sums: [OrderTypeIdentifier: Int64] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let type = try? OrderTypeIdentifier(pairs[index].text ?? "") else { continue }
            sums[type] = pairs[index + 1].integer
        }
        return sums
    }
}

extension StoreScripts {
    /// Adds to a sum. KEYS: the sums. ARGV: name of the sum, summand. Returns the sum.
    static let addBytes = RedisScript(
        """
        local sum = (tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '') or 0) + ARGV[2]
        -- First, so that a Redis that is full takes it.
        redis.call('HDEL', KEYS[1], ARGV[1])
        redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', sum))
        return sum
        """)

    /// Deletes a document of an order with all that is known of it.
    static let dropDocument = """
        local function dropDocument(id)
          local names = {redis.call('HGET', KEYS[1], id .. '.asset') or nil}
          for name in string.gmatch('\(PictureField.allCases.map(\.rawValue).joined(separator: " "))', '%S+') do
            names[#names + 1] = id .. '.' .. name
          end
          redis.call('HDEL', KEYS[1], unpack(names))
        end

        """

    /// Writes what is known of a document, if its order has a package. A writer that read the order before finds that
    /// it was written since, and makes the package with the document.
    ///
    /// The fields come first, so that a Redis that is full refuses them.
    /// KEYS: the order. ARGV: identifier, identifiers that the order names with a space around each, most bytes of all
    /// documents, reference and ZIP entry or both empty, then field, value, …
    /// Returns the bytes of documents that ended, -2 without a package, -1 for too many bytes.
    static let saveDocument = RedisScript(
        Self.dropDocument + Self.revised + """
            local values = redis.call('HMGET', KEYS[1], 'etag', 'removed', 'own', 'assets', 'revision')
            if not values[1] or values[2] then return -2 end
            local kept, ended, bytes, endedBytes = {ARGV[1]}, {}, #ARGV[5], 0
            for id in string.gmatch(values[3] or '', '%S+') do
              if id ~= ARGV[1] then
                local asset = redis.call('HGET', KEYS[1], id .. '.asset') or ''
                local size = tonumber(string.match(asset, '%d+$') or '') or 0
                local isShown = asset ~= '' and string.find(values[4] or '', asset, 1, true)
                if isShown or string.find(ARGV[2], ' ' .. id .. ' ', 1, true) then
                  kept[#kept + 1], bytes = id, bytes + size
                else
                  ended[#ended + 1], endedBytes = id, endedBytes + size
                end
              end
            end
            if ARGV[4] ~= '' and bytes > tonumber(ARGV[3]) then return -1 end
            local fields = {'own', table.concat(kept, ' '), 'revision', revised(values[5])}
            if ARGV[4] ~= '' then fields[5], fields[6] = ARGV[4], ARGV[5] end
            for index = 6, #ARGV, 2 do
              fields[#fields + 1] = ARGV[1] .. '.' .. ARGV[index]
              fields[#fields + 1] = ARGV[index + 1]
            end
            redis.call('HSET', KEYS[1], unpack(fields))
            if ARGV[4] ~= '' then redis.call('HDEL', KEYS[1], ARGV[1] .. '.failure') end
            for _, id in ipairs(ended) do dropDocument(id) end
            return endedBytes
            """)
}
