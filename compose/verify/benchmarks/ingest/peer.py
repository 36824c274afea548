"""
A mapper in Python with the usual packages; started by compose/verify/benchmarks/ingest/bench.py.

It does what `waybill-packager ingest` does with a backlog, except for checking the changes: consume, decode, map,
publish, commit. It processes ranges of offsets of all partitions, and prints as JSON the number of changes and the
seconds of its CPU and of the clock; importing is not counted.
"""

import io
import json
import sys
import time

import confluent_kafka
import fastavro
import orjson

import mapping

BATCH = 1000


class Mapper:
    def __init__(self, settings):
        servers = {"bootstrap.servers": settings["bootstrap"]}
        self.schema = fastavro.parse_schema(settings["schema"]) if settings["schema"] else None
        self.producer = confluent_kafka.Producer(servers | {"linger.ms": 2})
        self.consumer = confluent_kafka.Consumer(servers | {"group.id": "bench-python", "enable.auto.commit": False})
        self.topic, self.target = settings["topic"], settings["target"]
        # Partition -> (first offset, offset after the last).
        self.ranges = {int(number): tuple(offsets) for number, offsets in settings["ranges"].items()}
        self.consumer.assign([
            confluent_kafka.TopicPartition(self.topic, number, first) for number, (first, _) in self.ranges.items()])
        self.left = sum(end - first for first, end in self.ranges.values())
        self.made, self.failed = 0, 0

    def run(self):
        wall, cpu = time.monotonic(), time.process_time()
        while self.left > 0:
            messages = self.consumer.consume(BATCH, timeout=0.1)
            taken = [m for m in messages if not m.error() and m.offset() < self.ranges[m.partition()][1]]
            if taken:
                self.left -= len(taken)
                self.process(taken)
        return {"changes": self.made, "cpu": time.process_time() - cpu, "wall": time.monotonic() - wall}

    def process(self, messages):
        offsets = {}
        for message in messages:
            value = message.value()
            # Confluent's framing: a zero byte and the identifier of the schema.
            order = fastavro.schemaless_reader(io.BytesIO(value[5:]), self.schema) if self.schema else \
                orjson.loads(value)
            change = mapping.change(order, f"{self.topic}/{message.partition()}/{message.offset()}/1")
            if change:
                self.publish(change)
            offsets[message.partition()] = message.offset() + 1
        if self.producer.flush(30) or self.failed:
            raise RuntimeError("publishing changes failed")
        self.consumer.commit(asynchronous=False, offsets=[
            confluent_kafka.TopicPartition(self.topic, number, offset) for number, offset in offsets.items()])

    def publish(self, change):
        self.producer.produce(
            self.target, key=change["subject"], value=orjson.dumps(change), on_delivery=self.delivered,
            headers={"content-type": "application/cloudevents+json"})
        self.producer.poll(0)
        self.made += 1

    def delivered(self, error, _):
        self.failed += error is not None


def main():
    mapper = Mapper(json.load(sys.stdin))
    print(json.dumps(mapper.run()), flush=True)


main()
