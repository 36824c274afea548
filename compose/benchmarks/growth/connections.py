"""The gateway with more and more idle connections, each of which had a request, as Wallet leaves them."""

import gc
import time

from client import Connection
from gateway import idle
from processes import memory_mb
from report import percentile
from subject import AUTHORIZATION, TOKEN

X = "connections"
UNITS = {"memory": "kB a connection", "fetch": "µs of CPU", "fetch_p50": "ms"}
SIZES = (100, 1000, 5000, 10_000)
ORDERS, RATE = 500, 1000
# With fewer, the memory of a connection is lost in that of the program.
LEAST = 1000


def measure(bench):
    stack = bench.stack
    stack.start("packager", "gateway")
    orders = [f"connections-{number}" for number in range(ORDERS)]
    bench.replace_with_example(orders, TOKEN)
    stack.stop("packager")
    paths = [stack.path(order) for order in orders]
    first = Connection(stack.gateway_port)
    since = ("if-modified-since", first.get(paths[-1], AUTHORIZATION).headers["last-modified"])
    bench.served(paths, AUTHORIZATION)
    time.sleep(2)
    before, opened = memory_mb(stack.pid("gateway")), []
    gc.disable()
    try:
        for size in SIZES:
            # The gateway closes a connection that has had no request for a while.
            while len(opened) < size:
                known = len(opened)
                idle.open_more(stack, opened, min(size, known + 500))
                idle.use(opened[known:], paths[-1], since)
            idle.use(opened, paths[-1], since)
            time.sleep(2)
            values = {}
            if size >= LEAST:
                memory = memory_mb(stack.pid("gateway")) - before
                values["memory"] = memory * 1024 / size
            values["fetch"] = bench.served(paths, AUTHORIZATION).cost * 1e6
            values["fetch_p50"] = percentile(bench.served(paths, AUTHORIZATION, rate=RATE).latencies, 0.5)
            yield size, values
    finally:
        gc.enable()
        for connection in [first, *opened]:
            connection.close()
        stack.stop("gateway")
