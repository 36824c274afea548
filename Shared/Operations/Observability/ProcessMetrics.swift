import Glibc

/// The kernel's figures of this process, by the names that all Prometheus clients use, so that dashboards and alerts
/// which are there already have them.
///
/// Read for each answer; the open files are not counted one by one where the kernel has their number.
/// Source: Prometheus, "Writing client libraries", process metrics; proc(5)
struct ProcessMetrics: Hashable, Sendable {
    let cpuSeconds: Double
    let openFiles: Int
    /// The most files that may be open; nil: no limit.
    let mostFiles: UInt?
    let residentBytes: Int
    let virtualBytes: Int

    /// The start of the process in seconds since 1970.
    static let startSeconds: Double = {
        // Field 22 in ticks since the system's start; the second field, a name in parentheses, may have spaces.
        let fields = Self.file("/proc/self/stat").split(separator: ")").last?.split(separator: " ") ?? []
        let ticks = fields.count > 19 ? Double(fields[19]) ?? 0 : 0
        let sinceBoot = ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
        return Self.seconds(CLOCK_REALTIME) - Self.seconds(CLOCK_BOOTTIME) + sinceBoot
    }()

    /// Reads them now.
    init() {
        self.cpuSeconds = Self.seconds(CLOCK_PROCESS_CPUTIME_ID)
        self.openFiles = Self.countOfOpenFiles()
        var limit = rlimit()
        let isKnown = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
        self.mostFiles = isKnown && limit.rlim_cur < UInt(Int.max) ? limit.rlim_cur : nil
        let pages = Self.file("/proc/self/statm").split(separator: " ").map { Int($0) ?? 0 }
        let page = sysconf(Int32(_SC_PAGESIZE))
        self.virtualBytes = (pages.first ?? 0) * page
        self.residentBytes = pages.count > 1 ? pages[1] * page : 0
    }

    static let table = [
        MetricRow(.counter, "process_cpu_seconds_total", "processor time of the process"),
        MetricRow(.gauge, "process_open_fds", "open files, connections among them"),
        MetricRow(.gauge, "process_max_fds", "the most files that may be open"),
        MetricRow(.gauge, "process_resident_memory_bytes", "memory that is in use"),
        MetricRow(.gauge, "process_virtual_memory_bytes", "addresses that are in use"),
        MetricRow(.gauge, "process_start_time_seconds", "the start of the process, since 1970"),
    ]

    /// As Prometheus text.
    var text: String {
        let values: [String?] = [
            "\(self.cpuSeconds)", "\(self.openFiles)", self.mostFiles.map { "\($0)" }, "\(self.residentBytes)",
            "\(self.virtualBytes)", "\(Self.startSeconds)",
        ]
        return zip(Self.table, values).map { row, value in
            guard let value else { return "" }
            return "# HELP \(row.name) \(row.helpText)\n# TYPE \(row.name) \(row.kind)\n\(row.name) \(value)\n"
        }.joined()
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        guard unsafe clock_gettime(clock, &time) == 0 else { return 0 }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// Source: proc(5), `/proc/pid/fd`: its size is the number of open files since Linux 6.2
    private static func countOfOpenFiles() -> Int {
        var status = stat()
        if unsafe stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return status.st_size }
        guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
        defer { unsafe closedir(folder) }
        var count = 0
        while unsafe readdir(folder) != nil { count += 1 }
        // Without `.`, `..`, and the folder itself.
        return max(0, count - 3)
    }

    /// Returns the text of one of the kernel's small files; empty if it cannot be read.
    private static func file(_ path: String) -> String {
        (try? FileContent.read(path, limit: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
            ?? ""
    }
}
