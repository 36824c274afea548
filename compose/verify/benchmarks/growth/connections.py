"""The gateway with more and more idle connections, each of which had a request, as Wallet leaves them."""

import contextlib
import gc
import resource
import time

from client import Connection
from gateway import idle
from processes import memory_mb
from report import percentile
from subject import AUTHORIZATION, TOKEN

X = "connections"
UNITS = {"memory": "kB a connection", "fetch": "× the client's CPU", "fetch_p50": "ms", "visit": "µs of CPU"}
SIZES = (100, 1000, 5000, 10_000, 20_000)
ORDERS, RATE = 500, 1000
# Connections that are opened for one request, and closed, at each size.
VISITS = 2000
# With fewer, the memory of a connection is lost in that of the program.
LEAST = 1000
# The gateway takes as many connections as it may have files, less a few; above half of them it closes idle ones, the
# sooner the more there are.
FILES, USED = 25_000, 0.83
# Seconds after which no connection may be idle while more are opened.
FRESH = 8


def measure(bench):
    most = allow_files() * USED
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
        for size in bench.sizes(SIZES):
            size = int(min(size, most))
            open_more(stack, opened, size, lambda some: idle.use(some, paths[-1], since))
            time.sleep(2)
            values = {}
            if size >= LEAST:
                memory = memory_mb(stack.pid("gateway")) - before
                values["memory"] = memory * 1024 / size
            values["fetch"] = bench.served(paths, AUTHORIZATION).cost
            values["fetch_p50"] = percentile(bench.served(paths, AUTHORIZATION, rate=RATE).latencies, 0.5)
            usage = bench.usage({"gateway": [stack.pid("gateway")]})
            for _ in range(VISITS):
                with contextlib.closing(Connection(stack.gateway_port)) as visitor:
                    idle.use([visitor], paths[-1], since)
            values["visit"] = usage.end().used["gateway"] / VISITS * 1e6
            yield size, values
    finally:
        gc.enable()
        for connection in [first, *opened]:
            connection.close()
        stack.stop("gateway")


def allow_files():
    """Raises the limit of this process and of those that it starts, as far as the system lets it. Returns the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Only root may have more.
    for files in (max(most, FILES), most):
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            return files


def open_more(stack, opened, size, use):
    """Opens connections until the list has this many, and has a request on each within the last seconds."""
    used = 0
    while len(opened) < size:
        known = len(opened)
        idle.open_more(stack, opened, min(size, known + 500))
        use(opened[known:])
        if time.monotonic() > used + FRESH:
            use(opened)
            used = time.monotonic()
    use(opened)
