"""Orders that have changed more and more often."""

import time

from memory import PACKED

X = "changes of an order"
UNITS = {"memory": "kB an order", "change": "µs of CPU"}
SIZES = (1, 10, 100, 1000)
ORDERS = 200
# Changes of each order that are measured, one after the other, since a backlog of several becomes one version.
MEASURED = 10


def measure(bench):
    crew, redis = bench.crew, bench.stack.redis
    worker, before = crew.start(), redis.used_memory()
    made = list(bench.documents.next_changes(ORDERS))
    orders = [order for order, _, _ in made]
    crew.publish(made)
    done = 1
    for size in bench.sizes(SIZES):
        crew.publish(patches(orders, size - done), PACKED)
        crew.await_done(300)
        memory = redis.used_memory() - before
        usage = bench.usage({"packager": [worker.pid]})
        for _ in range(MEASURED):
            crew.publish(patches(orders, 1))
            crew.await_done()
        used = usage.end().used["packager"]
        done = size + MEASURED
        yield size, {"memory": memory / ORDERS / 1000,
                     "change": used / ORDERS / MEASURED * 1e6}


def patches(orders, count):
    for _ in range(count):
        for order in orders:
            yield order, "patched", {"statusDescription": f"changed at {time.time_ns()}"}
