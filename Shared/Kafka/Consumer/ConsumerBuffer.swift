/// Records between the polling thread and the worker, bounded by number and weight.
struct ConsumerBuffer {
    private var records: [KafkaRecord] = []
    /// Records before this index were taken.
    private var head = 0
    /// The total size of the waiting records.
    private(set) var bytes = 0
    /// The bounds on reading ahead of the worker.
    let limits: (records: Int, bytes: Int)

    /// Both limits are at least 1: a buffer without room would block forever.
    init(records: Int, bytes: Int) { self.limits = (max(1, records), max(1, bytes)) }

    var count: Int { self.records.count - self.head }
    var isEmpty: Bool { self.count == 0 }
    /// True if fetching must stop. The last record may exceed the limit of bytes.
    var isFull: Bool { self.count >= self.limits.records || self.bytes >= self.limits.bytes }
    /// True if fetching may continue after a pause: half is gone, so that pausing does not flap.
    var isHalfEmpty: Bool { self.count <= self.limits.records / 2 && self.bytes <= self.limits.bytes / 2 }

    mutating func append(_ record: KafkaRecord) {
        self.records.append(record)
        self.bytes += record.size
    }

    /// Removes and returns the oldest records up to these limits, at least one if there is one.
    mutating func take(records: Int, bytes limit: Int) -> [KafkaRecord] {
        var end = self.head
        var bytes = 0
        while end < self.records.count, end - self.head < max(1, records) {
            let size = self.records[end].size
            if end > self.head, bytes + size > limit { break }
            bytes += size
            end += 1
        }
        let batch: [KafkaRecord]
        if self.head == 0, end == self.records.count {
            batch = self.records
            self.records = []
            self.records.reserveCapacity(min(batch.count, 4096))
        } else {
            batch = Array(self.records[self.head..<end])
            self.head = end
            // Removed records are freed when they are half of the array, so moving costs O(1) per record.
            if self.head * 2 >= self.records.count {
                self.records.removeFirst(self.head)
                self.head = 0
            }
        }
        self.bytes -= bytes
        return batch
    }

    mutating func clear() {
        self.records = []
        self.head = 0
        self.bytes = 0
    }

    /// Drops the records of partitions that went to another member.
    mutating func drop(_ partitions: Set<KafkaPartition>) {
        self.records.removeFirst(self.head)
        self.head = 0
        self.records.removeAll { partitions.contains(KafkaPartition(topic: $0.topic, partition: $0.partition)) }
        self.bytes = self.records.reduce(0) { $0 + $1.size }
    }
}
