"""Copies topics from one Kafka to another, all of a record but its offset, and translates offsets of groups."""

import math
import threading
import time

import confluent_kafka

from pace import Repeater
from stack import Failure, eventually
from topics import Reader

# The pusher's consumer groups, with the topics that they read.
PUSHERS = {
    "waybill-pusher": ("waybill.orders", "waybill.registrations"), "waybill-pusher-pending": ("waybill.push-pending",)}


def clusters(*places):
    """Returns the identifiers of the clusters at these addresses; fails unless they differ."""
    names = [Reader(place).consumer.list_topics(timeout=10).cluster_id for place in places]
    if len(set(names)) < len(names):
        raise Failure(f"the brokers at {' and '.join(places)} belong to the same cluster: {', '.join(names)}")
    return names


class Mirror:
    """
    Reads the partitions of one cluster, and writes the same partitions of another.

    Records that compacted topics have at the start are copied as compaction leaves them: the last one of each key. So
    offsets are lower in the copy.
    """

    def __init__(self, source, target, plain, compacted):
        """plain, compacted: names of topics in the target, by their names in the source."""
        self.source, self.names, self.compacted = source, plain | compacted, set(compacted)
        self.reader, self.target = Reader(source, "waybill-mirror"), target
        self.producer = confluent_kafka.Producer({"bootstrap.servers": target, "linger.ms": 2})
        self.lock, self.failed = threading.Lock(), []
        # By (topic, partition) of the source: the next offset to read; offsets with those of their copies, ascending.
        self.next, self.copies = {}, {}
        places = [place for topic in self.names for place in self.reader.places(topic)]
        for place in places:
            place.offset = 0
            self.next[place.topic, place.partition], self.copies[place.topic, place.partition] = 0, []
        # The ends of compacted partitions at the start; for those with records, the last one of each key until then.
        self.ends = {place: self.end(*place) for place in self.next if place[0] in self.compacted}
        self.held = {place: {} for place, end in self.ends.items() if end}
        self.reader.consumer.assign(places)
        self.reading = Repeater(self.read, math.inf)

    def read(self, _):
        for message in self.reader.consumer.consume(1000, 0.05):
            if message.error():
                self.failed.append(str(message.error()))
                continue
            place = (message.topic(), message.partition())
            if place in self.held:
                # The last record of a key, in the place of that record.
                self.held[place].pop(message.key(), None)
                self.held[place][message.key()] = message
                if message.offset() + 1 >= self.ends[place]:
                    for kept in self.held.pop(place).values():
                        self.copy(kept)
            else:
                self.copy(message)
            self.next[place] = message.offset() + 1
        self.producer.poll(0)

    def copy(self, message):
        place, offset = (message.topic(), message.partition()), message.offset()

        def copied(error, copy):
            if error:
                self.failed.append(str(error))
            else:
                with self.lock:
                    self.copies[place].append((offset, copy.offset()))

        self.producer.produce(
            self.names[message.topic()], partition=message.partition(), key=message.key(), value=message.value(),
            headers=message.headers(), timestamp=message.timestamp()[1], on_delivery=copied)

    def end(self, topic, partition):
        return self.reader.bounds(confluent_kafka.TopicPartition(topic, partition))[1]

    def drain(self, topics):
        """Returns when everything in these topics is copied. Nothing may be writing to them."""
        ends = {place: self.end(*place) for place in self.next if place[0] in topics}

        def are_copied():
            self.reading.require_running()
            if self.failed:
                raise Failure(f"mirroring: {self.failed[0]}")
            return all(self.next[place] >= end for place, end in ends.items())

        eventually(f"mirroring {', '.join(topics)}", are_copied)
        # Twice, as a margin: all records are with the producer now, which the reading thread polls as well.
        for _ in range(2):
            time.sleep(0.1)
            if self.producer.flush(30):
                raise Failure("mirroring: no answer in 30 s")

    def carry(self, group, topics):
        """Commits in the target what a group has committed in the source. The group must have no members."""
        here, there = Reader(self.source, group), Reader(self.target, group)
        offsets = []
        for place in (place for topic in topics for place in here.committed(topic)):
            if place.offset < 0:
                continue
            with self.lock:
                done = [copy for offset, copy in self.copies[place.topic, place.partition] if offset < place.offset]
            offsets.append(confluent_kafka.TopicPartition(
                self.names[place.topic], place.partition, max(done, default=-1) + 1))
        if offsets:
            there.consumer.commit(offsets=offsets, asynchronous=False)
        here.close()
        there.close()

    def close(self):
        self.reading.stop()
        self.producer.flush(10)
        self.reader.close()
