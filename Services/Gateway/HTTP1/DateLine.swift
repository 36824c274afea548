import Glibc

/// The text of the `Date` header, updated each second.
struct DateLine {
    private var second: Int64 = -1
    private var line = ""

    mutating func text() -> String {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME_COARSE, &now)
        if Int64(now.tv_sec) != self.second {
            self.second = Int64(now.tv_sec)
            self.line = HTTPDate.format(epochSeconds: self.second)
        }
        return self.line
    }
}
