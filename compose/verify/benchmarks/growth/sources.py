"""The role `ingest` with more and more sources, each with a topic, and records of all of them in turn."""

import time

from ingest import records
from ingest.role import GROUP, Role, write_source
from memory import PACKED
from processes import memory_mb, start_broker
from stack import eventually
from topics import CHANGES, Producer, Reader

X = "sources"
UNITS = {"memory": "kB a source", "record": "µs of CPU", "record_by_pattern": "µs of CPU"}
SIZES = (1, 10, 100)
# At each size, since a partition costs something as well.
PARTITIONS = 100
RECORDS, BYTES = 3000, 2000
# With fewer, the memory of a source is lost in that of the program.
LEAST = 10
# How a source names its topic.
FORMS = {"record": "{}", "record_by_pattern": "^{}$"}


def measure(bench):
    sizes, alone = bench.sizes(SIZES), {}
    topics = {topic(size, number): PARTITIONS // size for size in sizes for number in range(size)}
    broker, address = start_broker(
        bench.folder, "kafka-sources", topics | {CHANGES: 16, "waybill.dead-letters": 16})
    bench.ending.callback(broker.stop)
    for size in sizes:
        values = {}
        for line, form in FORMS.items():
            folder = f"{bench.folder}/{line}-{size}"
            for number in range(size):
                write_source(f"{folder}/sources", f"source-{number}", [form.format(topic(size, number))], {})
            role = Role(folder, address)
            bench.ending.callback(role.stop)
            time.sleep(2)
            memory = memory_mb(role.pid)
            used = map_records(bench, role, Reader(address, GROUP), address, size)
            values[line] = used / RECORDS * 1e6
            if size >= LEAST:
                values["memory"] = (memory - alone[line]) / (size - 1) * 1024
            alone.setdefault(line, memory)
            role.stop()
        yield size, values
    broker.stop()


def topic(size, number):
    return f"bench.{size}-{number}"


def map_records(bench, role, reader, address, size):
    """Returns the role's processor time in seconds for records of all sources, after as many that do not count."""
    names = [topic(size, number) for number in range(size)]
    for _ in range(2):
        producer = Producer(address, PACKED)
        usage = bench.usage({"role": [role.pid]})
        for number in range(RECORDS):
            order = records.order(number, BYTES)
            producer.put(names[number % size], str(order["id"]), records.text(order))
        producer.flush()
        eventually("mapping the records", lambda: all(reader.lag(name) <= 0 for name in names), 120, 0.1)
        used = usage.end().used["role"]
    reader.close()
    return used
