import CRDKafka
import Dispatch
import Synchronization

extension ConsumerThread {
    /// Answers a rebalance. librdkafka calls it inside `rd_kafka_consumer_poll`, so on the polling thread.
    ///
    /// Every call must be answered by an assign or unassign, or the group stops.
    /// Source: rdkafka.h, rd_kafka_conf_set_rebalance_cb
    func rebalance(
        _ raw: OpaquePointer, _ code: rd_kafka_resp_err_t,
        _ list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?
    ) {
        let partitions = unsafe list.map { unsafe KafkaPositionList.read($0) } ?? []
        let names = partitions.map { KafkaPartition(topic: $0.position.topic, partition: $0.position.partition) }
        let isCooperative = unsafe rd_kafka_rebalance_protocol(raw).map { unsafe String(cString: $0) } == "COOPERATIVE"
        guard code != RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS else {
            let isPaused = self.state.withLock { state in
                state.assign(names)
                return state.isPaused
            }
            if isCooperative {
                unsafe self.check(rd_kafka_incremental_assign(raw, list))
            } else {
                unsafe self.check(rd_kafka_assign(raw, list))
            }
            // Partitions assigned while the buffer is full must be paused too, or it grows without bound
            // (reactor-kafka#237).
            if isPaused { self.setPaused(true, names) }
            self.tell(.info, .assigned, names.map(\.description).joined(separator: " "))
            return
        }
        let isLost = unsafe rd_kafka_assignment_lost(raw) == 1 || code != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS
        self.leave(names, isLost: isLost)
        if isCooperative {
            unsafe self.check(rd_kafka_incremental_unassign(raw, list))
        } else {
            unsafe self.check(rd_kafka_assign(raw, nil))
        }
    }

    /// Drops the waiting records, lets work in progress finish, commits, then forgets the partitions.
    private func leave(_ partitions: [KafkaPartition], isLost: Bool) {
        let leaving = Set(partitions)
        // Commits for a lost partition are no longer ours.
        self.state.withLock { $0.beginLeaving(partitions, isLost: isLost) }
        let deadline = ContinuousClock.now + self.revokeWait
        while true {
            // Repeatedly: a batch may just have been on its way to the worker, or work may be returned undone.
            let waiting = self.onLeaving(leaving)
            let isDone = self.state.withLock { state in
                state.letGo(waiting)
                return isLost || state.isDone(leaving)
            }
            if isDone { break }
            let left = deadline - .now
            if left <= .zero {
                self.tell(.warning, .error, "giving partitions back: the worker was not done in \(self.revokeWait)")
                break
            }
            _ = self.wake.wait(timeout: .now() + .milliseconds(min(100, left.wholeMilliseconds)))
        }
        // Records whose commit the group refuses or does not accept in time are delivered again to the next owner.
        if !isLost, !self.commitNow(within: min(Self.commitWait, self.revokeWait)) {
            self.tell(.warning, .error, "giving partitions back: not committed in time")
        }
        // librdkafka keeps a partition paused beyond its assignment: it would still be paused when assigned again.
        if self.state.withLock({ $0.isPaused }) { self.setPaused(false, partitions) }
        self.state.withLock { $0.forget(partitions) }
        // The worker may have taken in or deferred records since the last call.
        _ = self.onLeaving(leaving)
        self.tell(.info, isLost ? .lost : .revoked, partitions.map(\.description).joined(separator: " "))
    }

    private func check(_ error: OpaquePointer?) {
        guard let error = unsafe error else { return }
        let code = unsafe rd_kafka_error_code(error)
        unsafe rd_kafka_error_destroy(error)
        self.check(code)
    }

    private func check(_ code: rd_kafka_resp_err_t) {
        if code == RD_KAFKA_RESP_ERR_NO_ERROR { return }
        self.tell(.warning, .error, KafkaError(code, "answering a rebalance").message)
    }
}
