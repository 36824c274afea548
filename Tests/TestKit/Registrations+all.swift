public import Model
public import Store

extension Registrations {
    /// Returns all devices of some orders, whatever their number: one list for each key, in the order of the keys.
    public func devices(of keys: [OrderKey]) async throws(StoreError) -> [[Registered]] {
        var all: [[Registered]] = []
        for key in keys {
            var devices: Set<Registered> = []
            var cursor: String?
            repeat {
                let page = try await self.pages(of: [(key, cursor)])[0]
                devices.formUnion(page.devices)
                cursor = page.next
            } while cursor != nil
            all.append(Array(devices))
        }
        return all
    }

    /// Returns the time of each order's last modification, UNIX seconds; nil for an order that is unknown or removed.
    public func modified(_ keys: [OrderKey]) async throws -> [Int64?] {
        try await self.look(up: [], modified: keys).modified.map { try $0.get() }
    }
}
