"""The peak memory of a packager with long backlogs, large documents and a slow Redis."""

import time

import slowness
from stack import Failure

# A million small changes: orders, each of which needs at least one signature, and changes of each.
SMALL_ORDERS, SMALL_CHANGES = 20_000, 50
LARGE_ORDERS, LARGE_BYTES = 1200, 200_000
SLOW_ORDERS, SLOW_MILLISECONDS = 20_000, 500
# The most seconds spent on a backlog. The one with the slow Redis is not finished, so it comes last.
SECONDS, SLOW_SECONDS = 150, 40
# Compressed, so that a backlog fits into the 5 MiB that the embedded broker keeps of a partition.
PACKED = {"compression.type": "lz4", "linger.ms": 100, "batch.num.messages": 2000}


def measure(crew, documents):
    """Yields the name, the value and a sentence of each figure."""
    yield idle(crew)
    crew.publish(small(documents, SMALL_ORDERS, SMALL_CHANGES), PACKED)
    count = SMALL_ORDERS * SMALL_CHANGES
    yield backlog(crew, "packager.backlog_mb", f"{count:,} small changes of {SMALL_ORDERS:,} orders")
    crew.publish(large(documents), PACKED)
    yield backlog(crew, "packager.large_mb", f"{LARGE_ORDERS:,} documents of {LARGE_BYTES // 1000} kB")
    crew.publish(documents.next_changes(SLOW_ORDERS), PACKED)
    with slowness.proxy(crew.stack, SLOW_MILLISECONDS / 1000) as port:
        settings = {"WAYBILL_REDIS_URL": f"redis://127.0.0.1:{port}/0"}
        text = f"{SLOW_ORDERS:,} changes, a Redis that answers after {SLOW_MILLISECONDS} ms"
        yield backlog(crew, "packager.slow_redis_mb", text, SLOW_SECONDS, settings)


def idle(crew):
    worker = crew.start()
    time.sleep(3)
    memory = worker.memory_mb("VmRSS")
    crew.stop()
    return "packager.rss_mb", memory, f"idle: {memory:.0f} MB resident, 3 s after it was ready"


def small(documents, orders, changes):
    """Yields the changes of each order in turn, as short as possible."""
    for _ in range(orders):
        order, document = documents.smallest()
        yield order, "replaced", document
        for step in range(1, changes):
            yield order, "patched", {"statusDescription": f"step {step}"}


def large(documents):
    for _ in range(LARGE_ORDERS):
        order, document = documents.large(LARGE_BYTES)
        yield order, "replaced", document


def backlog(crew, name, text, seconds=SECONDS, settings=None):
    """Starts a packager when there is a backlog, and measures until that is done or the time is over."""
    total = crew.lag()
    worker = crew.start_at_once(settings=settings)
    start = time.monotonic()
    began, left = None, total
    while left > 0 and time.monotonic() < (began or start + 30) + seconds:
        time.sleep(0.2)
        crew.require_running()
        left = crew.lag()
        if began is None and left < total:
            began = time.monotonic()
    if began is None:
        raise Failure(f"{text}: none of {total} changes was worked off in {seconds + 30} s: {worker.last_words()}")
    took = time.monotonic() - began
    peak, now = worker.memory_mb(), worker.memory_mb("VmRSS")
    crew.stop(within=15)
    done = "all" if left <= 0 else f"{total - left:,} of them"
    return name, peak, f"{text}: {peak:.0f} MB at most, {now:.0f} MB at the end; {done} worked off in {took:.0f} s"
