"""A packager with more and more brands: loading them, and packages of all of them in turn."""

import time

from memory import PACKED
from processes import cpu_seconds
from topics import Publisher

X = "brands"
UNITS = {"load": "ms of CPU a brand", "memory": "kB a brand", "package": "µs of CPU"}
SIZES = (1, 10, 50, 100)
PACKAGES = 2000
# With fewer, what a brand takes is lost in what the program takes.
LEAST = 50


def measure(bench):
    stack, crew = bench.stack, bench.crew
    types, alone = [stack.type], None
    # The first start finds nothing in memory.
    crew.start()
    crew.stop()
    for size in SIZES:
        for number in range(len(types), size):
            types.append(f"order.com.example.brand{number}")
            stack.add_brand(types[-1])
        worker = crew.start()
        loading = cpu_seconds([worker.pid])
        time.sleep(2)
        memory = worker.memory_mb("VmRSS")
        alone = alone or (loading, memory)
        values = {}
        if size >= LEAST:
            values["load"] = (loading - alone[0]) / (size - 1) * 1000
            values["memory"] = (memory - alone[1]) / (size - 1) * 1024
        package(bench, types)
        before = cpu_seconds([worker.pid])
        package(bench, types)
        values["package"] = (cpu_seconds([worker.pid]) - before) / PACKAGES * 1e6
        crew.stop()
        yield size, values


def package(bench, types):
    """Returns when a new order of each brand in turn is packaged."""
    crew = bench.crew
    with crew.frozen():
        publisher = Publisher(bench.stack, PACKED)
        for number in range(PACKAGES):
            order, document = bench.documents.smallest()
            publisher.send_event(f"{types[number % len(types)]}/{order}", "waybill.order.replaced", document)
        publisher.flush()
        crew.published += publisher.count
    crew.await_done()
