"""The role that maps other systems' events, compared with jq and with a mapper in Python."""

import contextlib
import json
import shutil
import signal
import statistics
import subprocess
import threading
import time
from pathlib import Path

from ingest import mapping, records
from ingest.registry import Registry
from ingest.role import GROUP, Role, write_source
from latency import steadily
from metrics import Metrics
from processes import ENDED, Usage, output_of, start_broker
from report import Round, median_ratio, percentile
from stack import Failure, eventually, run_tool
from subject import HERE, PEER_PYTHON, Bench
from topics import CHANGES, Producer, Reader, key_of

DEAD_LETTERS, PYTHON_CHANGES = "waybill.dead-letters", "bench.python"
PARTITIONS = 16
# The embedded broker drops the oldest records of a partition above 5 MiB; no backlog may come near.
PARTITION_BYTES = 4 << 20
RECORDS_A_SECOND = 300
# By topic: bytes of a record, how many times as many records as of the largest, and the goal per second of CPU.
SIZES = {"bench.2kb": (2000, 4, 8000), "bench.7kb": (7000, 2, 4000), "bench.19kb": (19000, 1, 2000)}
# An order that has 7 kB in JSON.
AVRO, AVRO_BYTES, AVRO_TIMES, SCHEMA_ID = "bench.avro", 7000, 2, 7
LATENCY, LATENCY_BYTES = "bench.latency", 2000
# Records of each topic whose changes are compared, member by member.
COMPARED = 64


class IngestBench(Bench):
    def set_up(self):
        self.made = 0
        self.schema = records.schema(records.order(0))
        sources = [*SIZES, LATENCY, AVRO]
        self.broker, self.bootstrap = start_broker(
            self.folder, "kafka", dict.fromkeys([*sources, CHANGES, PYTHON_CHANGES, DEAD_LETTERS], PARTITIONS))
        self.ending.callback(self.broker.stop)
        self.reader = Reader(self.bootstrap, GROUP)
        self.ending.callback(self.reader.close)
        self.producer = Producer(self.bootstrap)
        run_tool("certificates", "--out", f"{self.folder}/tls", "--order-type", mapping.ORDER_TYPE)
        registry = self.ending.enter_context(Registry(self.schema, SCHEMA_ID, f"{self.folder}/tls"))
        write_source(f"{self.folder}/sources", "orders", [*SIZES, LATENCY], {"format": "json"})
        avro = write_source(f"{self.folder}/sources", "avro", [AVRO], {"format": "avro", "registry": {
            "url": f"https://localhost:{registry.port}", "addresses": ["127.0.0.1", "::1"], "roots": "root.pem"}})
        shutil.copy(f"{self.folder}/tls/root.pem", avro)
        self.role = Role(self.folder, self.bootstrap)
        self.ending.callback(self.role.stop)

    def measure(self):
        self.require_equal_changes()
        for topic, (_, _, goal) in SIZES.items():
            self.measure_rates(topic, goal)
        self.measure_rates(AVRO)
        self.measure_latency()
        self.require_no_dead_letters()

    # --- records -----------------------------------------------------------------------------------------------------

    def orders(self, topic, count):
        """Returns the next orders, all different."""
        size = {AVRO: AVRO_BYTES, LATENCY: LATENCY_BYTES}.get(topic) or SIZES[topic][0]
        self.made += count
        return [records.order(number, size) for number in range(self.made - count, self.made)]

    def value(self, topic, order):
        return records.framed(order, self.schema, SCHEMA_ID) if topic == AVRO else records.text(order)

    def values(self, topic, orders):
        """Returns the values of orders by their keys."""
        values = {str(order["id"]): self.value(topic, order) for order in orders}
        if sum(map(len, values.values())) > PARTITIONS * PARTITION_BYTES:
            raise Failure(f"{len(values)} records of {topic} are more than the broker keeps: give fewer --records")
        return values

    def publish(self, topic, values):
        """Publishes values evenly to the partitions, and returns the ranges of their offsets by partition."""
        before = self.reader.ends(topic)
        for index, (key, value) in enumerate(values.items()):
            self.producer.put(topic, key, value, partition=index % PARTITIONS)
        self.producer.flush()
        after = self.reader.ends(topic)
        return {number: (before[number], after[number]) for number in after}

    def count(self, topic):
        """Returns the number of records that a topic ever had."""
        return sum(self.reader.ends(topic).values())

    def await_done(self, topic, seconds=180):
        def is_done():
            self.role.require_running()
            return self.reader.lag(topic) <= 0

        eventually(lambda: f"mapping the last {self.reader.lag(topic)} records of {topic}", is_done, seconds, 0.02)

    @contextlib.contextmanager
    def counted(self, topic, count):
        """Fails unless this many records are added to a topic meanwhile."""
        before = self.count(topic)
        yield
        added = self.count(topic) - before
        if added != count:
            raise Failure(f"{count} records made {added} changes in {topic}")

    def require_no_dead_letters(self):
        metrics = Metrics.of(self.role.url)
        mapped, others = metrics.total("waybill_ingest_records_total", outcome="mapped"), self.count(DEAD_LETTERS)
        if others or mapped != self.made:
            raise Failure(f"of {self.made} records {mapped} were mapped, and {others} are dead letters")

    def require_equal_changes(self):
        """Fails unless ingest, Python and jq make the same changes of some records of each topic."""
        for topic in (*SIZES, AVRO):
            orders = self.orders(topic, COMPARED)
            expected = {change["subject"]: change["data"] for change in
                        (mapping.change(order, "") for order in orders)}
            with self.counted(CHANGES, COMPARED), self.counted(PYTHON_CHANGES, COMPARED):
                ranges = self.publish(topic, self.values(topic, orders))
                self.await_done(topic)
                self.run_python(topic, ranges)
            for name in CHANGES, PYTHON_CHANGES:
                found = {key: json.loads(value)["data"] for key, value, _ in self.reader.records(name)}
                self.require_equal(f"{name} for {topic}", {key: found.get(key) for key in expected}, expected)
            file = self.write_lines(orders)
            lines = map(json.loads, output_of(self.jq(file)).splitlines())
            self.require_equal(f"jq for {topic}", {line["subject"]: line["data"] for line in lines}, expected)
        self.require_no_dead_letters()

    @staticmethod
    def require_equal(name, found, expected):
        for key, data in expected.items():
            if found.get(key) != data:
                raise Failure(f"{name}: {key} is {json.dumps(found.get(key))}, expected {json.dumps(data)}")

    # --- rates -------------------------------------------------------------------------------------------------------

    def measure_rates(self, topic, goal=None):
        times = AVRO_TIMES if topic == AVRO else SIZES[topic][1]
        count, name = self.arguments.records * times, topic.removeprefix("bench.")
        ours, python, jq = [], [], []
        for _ in range(self.arguments.rounds):
            orders = self.orders(topic, count)
            with self.counted(CHANGES, count):
                result, ranges = self.drain(topic, orders)
            ours.append(result)
            with self.counted(PYTHON_CHANGES, count):
                python.append(self.run_python(topic, ranges))
            if topic != AVRO:
                jq.append(self.run_jq(orders))
        rates = {"": ours, "_python": python, "_jq": jq}
        for peer, rounds in rates.items():
            if rounds:
                self.report.rate(f"{name}{peer.replace('_', ' ')}", rounds)
                self.report.figure(
                    f"ingest.records_per_cpu_second_{name}{peer}", statistics.median(1 / each.cost for each in rounds),
                    least=None if peer else goal)
        mine = [1 / each.cost for each in ours]
        self.report.figure(
            f"ingest.ratio_python_{name}", median_ratio(mine, [1 / each.cost for each in python]),
            least=3 if topic == AVRO else None)
        if jq:
            self.report.figure(f"ingest.ratio_jq_{name}", median_ratio(mine, [1 / each.cost for each in jq]))

    def drain(self, topic, orders):
        """Works off a backlog, and returns its figures until all is committed, and its ranges of offsets."""
        # Before the role is stopped, which must be shorter than the session timeout.
        values = self.values(topic, orders)
        self.role.process.send_signal(signal.SIGSTOP)
        try:
            ranges = self.publish(topic, values)
            usage = Usage({"ingest": [self.role.pid], "kafka": [self.broker.pid]})
        finally:
            self.role.process.send_signal(signal.SIGCONT)
        self.await_done(topic)
        usage.end()
        return Round(len(orders) / usage.wall, usage.shares(), usage.used["ingest"] / len(orders)), ranges

    def run_python(self, topic, ranges):
        result = json.loads(output_of([PEER_PYTHON, f"{HERE}/ingest/peer.py"], json.dumps({
            "bootstrap": self.bootstrap, "topic": topic, "target": PYTHON_CHANGES, "ranges": ranges,
            "schema": self.schema if topic == AVRO else None})))
        count, cpu, wall = (result[name] for name in ("changes", "cpu", "wall"))
        return Round(count / wall, {"Python": cpu / wall}, cpu / count)

    def run_jq(self, orders):
        file = self.write_lines(orders)
        usage = Usage({"jq": ENDED})
        subprocess.run(self.jq(file), check=True, stdout=subprocess.DEVNULL)
        usage.end()
        return Round(len(orders) / usage.wall, usage.shares(), usage.used["jq"] / len(orders))

    def write_lines(self, orders):
        file = Path(f"{self.folder}/records.json")
        file.write_bytes(b"".join(records.text(order) + b"\n" for order in orders))
        return str(file)

    @staticmethod
    def jq(file):
        return ["jq", "-c", "-f", f"{HERE}/ingest/map.jq", file]

    # --- latency -----------------------------------------------------------------------------------------------------

    def measure_latency(self):
        orders = self.values(LATENCY, self.orders(LATENCY, RECORDS_A_SECOND * self.arguments.seconds))
        producer, sent = Producer(self.bootstrap, {"linger.ms": 0}), {}
        producer.producer.list_topics(LATENCY, timeout=10)
        with Arrivals(self.bootstrap, len(orders)) as arrivals, self.counted(CHANGES, len(orders)):
            for index, order in enumerate(steadily(list(orders), RECORDS_A_SECOND, sent)):
                producer.put(
                    LATENCY, order, orders[order], partition=index % PARTITIONS, timestamp=sent[order] // 1_000_000)
            producer.flush()
            arrivals.wait()
        added, seen = (
            [found[f"{mapping.ORDER_TYPE}/{order}"] - sent[order] // 1_000_000 for order in orders]
            for found in (arrivals.written, arrivals.seen))
        if min(added) < -1:
            raise Failure(f"a change was written {-min(added)} ms before its record")
        self.report.figure("ingest.added_p50_ms", percentile(added, 0.5))
        self.report.figure("ingest.added_p99_ms", percentile(added, 0.99), most=10)
        self.report.figure("ingest.seen_p99_ms", percentile(seen, 0.99))
        self.report.note(
            f"{RECORDS_A_SECOND} records/s for {self.arguments.seconds} s: from a record's timestamp to its change's, "
            f"at most {max(added):.0f} ms; seen: until a reader of the changes has it, at most {max(seen):.0f} ms")


class Arrivals:
    """
    Follows the changes in a thread, until as many keys as expected have come.

    written, seen: milliseconds since 1970 by key: the record's timestamp, and when it was read.
    """

    def __init__(self, bootstrap, count):
        self.reader, self.count, self.written, self.seen = Reader(bootstrap), count, {}, {}
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.is_over.is_set() and len(self.seen) < self.count:
            message = self.reader.consumer.poll(0.1)
            if message and not message.error():
                key = key_of(message)
                self.written[key], self.seen[key] = message.timestamp()[1], time.time_ns() // 1_000_000

    def wait(self):
        self.thread.join(60)
        if len(self.seen) < self.count:
            raise Failure(f"{len(self.seen)} of {self.count} changes came within 60 s")

    def __enter__(self):
        self.reader.follow(CHANGES)
        # Its connection is there once a poll has returned.
        self.reader.consumer.poll(1)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.reader.close()
