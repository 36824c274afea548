import Fetch
import NIOCore
import Testing

@testable import HTTPServer

/// The decision which unfinished requests give way.
@Suite struct BodyBudgetTests {
    /// Requests have an identity only.
    private final class Mark: Sendable {}

    private static let overhead = BodyBudget.overhead
    private static let limits = BodyBudget.Limits(perAddress: 80_000, perNetwork: 320_000, total: 640_000)

    private var budget = BodyBudget(Self.limits)
    private let marks = (0..<200).map { _ in Mark() }

    private func client(_ network: Int, _ address: Int = 1) -> ClientAddress {
        ClientAddress(IPAddress(version4: UInt32(network) << 8 | UInt32(address)))
    }

    private func at(_ seconds: Double) -> NIODeadline { .uptimeNanoseconds(1_000_000_000 + UInt64(seconds * 1e9)) }

    /// Returns the requests that give way, by their numbers.
    private mutating func arrived(
        _ number: Int, _ client: ClientAddress, _ bytes: Int, at seconds: Double
    ) -> [Int] {
        let leaving = self.budget.arrived(
            ObjectIdentifier(self.marks[number]), of: client, bytes: bytes - Self.overhead, at: self.at(seconds))
        return self.numbers(leaving)
    }

    private func numbers(_ leaving: [BodyBudget.Leaving]) -> [Int] {
        leaving.compactMap { leaving in self.marks.firstIndex { ObjectIdentifier($0) == leaving.request } }
    }

    @Test mutating func theSlowestOfAnAddressGiveWayAndNotTheNewcomer() {
        // The third is twice as old as the others of the same size.
        for number in 0..<7 {
            let begin = number == 2 ? 0 : 5 + Double(number) / 100
            #expect(self.arrived(number, self.client(1), 10_000, at: begin).isEmpty)
        }
        #expect(self.arrived(7, self.client(1), 10_000, at: 10).isEmpty, "as many as there may be")
        #expect(self.arrived(7, self.client(1), 11_000, at: 10) == [2, 0], "until an eighth is free")
        #expect(self.budget.held == 61_000)
        #expect(self.arrived(2, self.client(9), 9_000, at: 11).isEmpty, "what gave way is forgotten")
    }

    @Test mutating func aFastOldRequestOutlivesASlowYoungerOne() {
        #expect(self.arrived(0, self.client(1), 55_000, at: 0).isEmpty)
        #expect(self.arrived(1, self.client(1), 12_000, at: 2).isEmpty)
        #expect(self.arrived(2, self.client(1), 14_000, at: 4) == [1], "6,000 bytes a second, and 13,750")
        #expect(self.arrived(3, self.client(1), 11_000, at: 4.1).isEmpty)
        #expect(self.arrived(4, self.client(1), 5_000, at: 4.2) == [0], "the others are new")
        #expect(self.arrived(5, self.client(1), 60_000, at: 4.3) == [2, 3], "of newcomers the oldest")
    }

    @Test mutating func aNetworkIsCutAtItsFullestAddresses() {
        // Six addresses of a network: five nearly full, one with little.
        var leaving: [Int] = []
        for number in 0..<30 {
            leaving += self.arrived(number, self.client(1, number % 5), 10_000, at: Double(number) / 100)
        }
        #expect(leaving.isEmpty)
        #expect(self.arrived(40, self.client(1, 9), 5_000, at: 0).isEmpty)
        leaving = self.arrived(41, self.client(1, 0), 19_000, at: 3)
        #expect(!leaving.isEmpty)
        #expect(!leaving.contains(40), "its address has little")
        #expect(!leaving.contains(41), "it is new")
        #expect(self.budget.held <= 280_000)
        #expect(self.arrived(50, self.client(2), 10_000, at: 3).isEmpty, "another network does not notice")
    }

    @Test mutating func allAreCutAtTheFullestNetworks() {
        var scopes: Set<BodyBudget.Scope> = []
        // A bystander's slow request, then twenty networks that fill all there is.
        #expect(self.arrived(0, self.client(100), 6_000, at: 0).isEmpty)
        for number in 1..<160 {
            let leaving = self.budget.arrived(
                ObjectIdentifier(self.marks[number]), of: self.client(number % 20), bytes: 8_000, at: self.at(60))
            scopes.formUnion(leaving.map(\.scope))
            #expect(!self.numbers(leaving).contains(0), "the slowest of all, at the emptiest network")
            #expect(self.budget.held <= 640_000)
        }
        #expect(scopes == [.total])
    }

    @Test mutating func aWholeRequestCountsInTheTotalOnlyAndStays() {
        for number in 0..<6 {
            let leaving = self.budget.completed(
                ObjectIdentifier(self.marks[number]), of: self.client(1), bytes: 100_000, at: self.at(0))
            #expect(leaving.isEmpty, "more than an address may have unfinished")
        }
        #expect(self.arrived(6, self.client(2), 30_000, at: 0) == [6], "there is no room for it")
        #expect(self.budget.held == 6 * (100_000 + Self.overhead))
        for mark in self.marks { self.budget.ended(ObjectIdentifier(mark)) }
        #expect(self.budget.held == 0)
        #expect(self.budget.count == 0)
        #expect(self.arrived(7, self.client(2), 80_000, at: 0).isEmpty)
    }

    @Test mutating func aRequestThatIsCompletedLeavesItsAddress() {
        #expect(self.arrived(0, self.client(1), 70_000, at: 0).isEmpty)
        #expect(
            self.budget.completed(
                ObjectIdentifier(self.marks[0]), of: self.client(1), bytes: 66_000, at: self.at(1)
            ).isEmpty)
        #expect(self.arrived(1, self.client(1), 70_000, at: 1).isEmpty)
        self.budget.ended(ObjectIdentifier(self.marks[0]))
        #expect(self.budget.held == 70_000)
    }

    @Test func amountsAreCutToOneLevel() {
        #expect(BodyBudget.level([], fitting: 0) == Int.max)
        #expect(BodyBudget.level([1, 2, 3], fitting: 6) == Int.max)
        #expect(BodyBudget.level([10, 2, 30], fitting: 22) == 10)
        #expect(BodyBudget.level([10, 10, 10], fitting: 15) == 5)
        #expect(BodyBudget.level([10, 10], fitting: -5) == 0)
    }
}

/// The memory limit of the control groups of a process.
@Suite struct ContainerMemoryTests {
    private func limit(_ groups: String, _ files: [String: String]) -> Int? {
        ContainerMemory.limit(groups: groups) { files[$0] }
    }

    @Test func theLowestLimitOfAProcessAndItsParentsCounts() {
        let service = "0::/system.slice/waybill-gateway.service\n"
        #expect(self.limit(service, ["system.slice/waybill-gateway.service/memory.max": "402653184\n"]) == 402_653_184)
        #expect(
            self.limit(
                service,
                ["system.slice/memory.max": "100\n", "system.slice/waybill-gateway.service/memory.max": "max\n"]) == 100
        )
        // A container sees its own group as the root, whatever its path outside is.
        #expect(self.limit("0::/\n", ["memory.max": "536870912\n"]) == 536_870_912)
        #expect(self.limit("0::/../pod\n", ["memory.max": "536870912\n"]) == 536_870_912)
        #expect(
            self.limit(
                "5:cpu:/a\n4:memory:/docker/a\n0::/\n",
                [
                    "memory/docker/a/memory.limit_in_bytes": "7\n",
                    "memory/memory.limit_in_bytes": "9223372036854771712\n",
                ]
            ) == 7)
    }

    @Test(arguments: ["", "0::/\n", "junk", "4:memory:/\n", "0:cpu", ":::::"]) func noLimitIsNone(groups: String) {
        let unlimited = ["memory.max": "max\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"]
        #expect(self.limit(groups, unlimited) == nil)
        #expect(self.limit(groups, ["memory.max": "0", "memory/memory.limit_in_bytes": "99999999999999999999"]) == nil)
    }

    @Test func bodiesHaveAQuarter() {
        #expect(ContainerMemory.bodies(limit: 384 << 20) == 96 << 20)
        #expect(ContainerMemory.bodies(limit: nil) == 64 << 20)
        #expect(ContainerMemory.bodies(limit: 1) == 1 << 20)
    }
}
