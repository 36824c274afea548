import Glibc

/// The processor time of the present thread, which a busy machine does not lengthen.
public enum ProcessorTime {
    public static var now: Duration {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Returns the number of times as long that eight times the work takes: 8 if it is in proportion to its size, 64 if
    /// it grows with the square.
    ///
    /// The least of three runs counts, since one may meet a cold cache or growing memory.
    /// - Parameters:
    ///   - size: that of the small work.
    ///   - prepare: makes the input of a size; not measured.
    public static func growth<Input>(
        from size: Int, prepare: (Int) throws -> Input, work: (Input) throws -> Void
    ) rethrows -> Double {
        let times = try [size, 8 * size].map { size in
            let input = try prepare(size)
            return try (0..<3).map { _ in
                let began = Self.now
                try work(input)
                return Self.now - began
            }.min() ?? .zero
        }
        return times[1] / max(times[0], .nanoseconds(1))
    }
}
