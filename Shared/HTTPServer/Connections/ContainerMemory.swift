import Operations

/// The memory that the process may have, as its control group limits it.
///
/// Source: cgroups(7); Linux, "Control Group v2", `memory.max`; "Memory Resource Controller", `memory.limit_in_bytes`
enum ContainerMemory {
    /// Values from here on mean that there is no limit: version 1 has no word for it.
    private static let unlimited = 1 << 60

    /// Bytes for the bodies of all requests together: a quarter of the limit, or 64 MiB without one.
    static func bodies(limit: Int?) -> Int { limit.map { max($0 / 4, 1 << 20) } ?? BodyBudget.Limits().total }

    /// Returns the lowest limit of the process' groups, in bytes; nil if there is none.
    ///
    /// - Parameters:
    ///   - groups: the content of `/proc/self/cgroup`.
    ///   - read: returns the content of a file below `/sys/fs/cgroup`; nil if it does not exist.
    static func limit(groups: String, read: (String) -> String?) -> Int? {
        var limits: [Int] = []
        for line in groups.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            let isVersion1 = parts[1].split(separator: ",").contains("memory")
            guard isVersion1 || parts[1].isEmpty else { continue }
            let (root, file) = isVersion1 ? ("memory/", "memory.limit_in_bytes") : ("", "memory.max")
            // In a container the path may be the one outside, and the own group the root.
            var names = parts[2].split(separator: "/")
            while true {
                let path = names.map { "\($0)/" }.joined()
                if let text = read(root + path + file), let value = Int(text.prefix { $0.isNumber }) {
                    limits.append(value)
                }
                guard names.popLast() != nil else { break }
            }
        }
        return limits.filter { (1..<Self.unlimited).contains($0) }.min()
    }

    /// The limit of this process; nil if there is none.
    static var limit: Int? {
        guard let groups = Self.content("/proc/self/cgroup") else { return nil }
        return Self.limit(groups: groups) { Self.content("/sys/fs/cgroup/\($0)") }
    }

    private static func content(_ path: String) -> String? {
        (try? FileContent.read(path, limit: 64 << 10)).map { String(decoding: $0, as: UTF8.self) }
    }
}
