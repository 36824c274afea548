"""The gateway's memory for an open connection that is idle."""

import gc
import time

from client import Connection
from processes import memory_mb
from stack import Failure
from subject import AUTHORIZATION

CONNECTIONS = 10_000
# Enough addresses for the limits of connections per address and per network: each is in a /24 of its own.
ADDRESSES = 250


def measure(stack, path):
    """
    Returns the resident MB of a gateway that was just started, the same after warming up, and the kB per connection
    with 10,000 open: before any request, and after one request each, which is how Wallet leaves them.
    """
    stack.restart("gateway")
    pid = stack.pid("gateway")
    time.sleep(2)
    idle = memory_mb(pid)
    # Loads code that has not run before, so that its memory is not counted as the connections'.
    first = Connection(stack.gateway_port)
    since = ("if-modified-since", first.get(path, AUTHORIZATION).headers["last-modified"])
    for _ in range(2000):
        first.get(path, AUTHORIZATION + [since])
        first.get(path, AUTHORIZATION)
    warm = memory_mb(pid)
    opened = []
    gc.disable()
    try:
        open_more(stack, opened, CONNECTIONS)
        time.sleep(1)
        untouched = memory_mb(pid)
        use(opened, path, since)
        time.sleep(1)
        used = memory_mb(pid)
        first.get(path, AUTHORIZATION)
    finally:
        gc.enable()
        first.close()
        for connection in opened:
            connection.close()
    return idle, warm, (untouched - warm) * 1024 / CONNECTIONS, (used - warm) * 1024 / CONNECTIONS


def open_more(stack, opened, count):
    """Opens connections to the gateway until the list has this many."""
    for index in range(len(opened), count):
        number = index % ADDRESSES
        opened.append(Connection(stack.gateway_port, f"127.0.{1 + number}.1"))
        if index % 500 == 499:
            time.sleep(0.02)


def use(connections, path, since):
    """Sends one request over each connection. since: the condition, which holds."""
    for connection in connections:
        answer = connection.get(path, AUTHORIZATION + [since])
        if answer.status != 304:
            raise Failure(f"an idle connection is answered {answer.status} instead of 304")
