"""How much memory a packager takes at most, whatever waits in Kafka and however slow Redis is."""

import time

import slowness
from stack import Failure
from workers import Worker

# A million small changes: orders and changes of each, which is to say how many signatures they take at least.
SMALL_ORDERS, SMALL_CHANGES = 50_000, 20
LARGE_ORDERS, LARGE_BYTES = 1200, 200_000
SLOW_ORDERS, SLOW_CHANGES, SLOW_MILLISECONDS = 20_000, 5, 500
# Most seconds that a backlog is worked on; a packager's memory does not change any more long before.
SECONDS = 60


def measure(crew, documents):
    """Gives name, value and a sentence of each figure."""
    yield idle(crew)
    # Compressed, so that it fits into the 5 MiB that the embedded broker keeps of a partition.
    publisher = type(crew.publisher)(
        crew.stack, {"compression.type": "lz4", "linger.ms": 100, "batch.num.messages": 2000})
    small(publisher, documents, SMALL_ORDERS, SMALL_CHANGES)
    count = SMALL_ORDERS * SMALL_CHANGES
    yield backlog(crew, publisher, "packager.backlog_mb", f"{count:,} small changes of {SMALL_ORDERS:,} orders")
    for _ in range(LARGE_ORDERS):
        order, document = documents.large(LARGE_BYTES)
        publisher.send(order, "replaced", document)
    publisher.flush()
    text = f"{LARGE_ORDERS:,} documents of {LARGE_BYTES // 1000} kB"
    yield backlog(crew, publisher, "packager.large_mb", text)
    small(publisher, documents, SLOW_ORDERS, SLOW_CHANGES)
    with slowness.proxy(crew.stack.redis_port, SLOW_MILLISECONDS / 1000) as port:
        settings = {"WAYBILL_REDIS_URL": f"redis://127.0.0.1:{port}/0"}
        text = f"a Redis that answers after {SLOW_MILLISECONDS} ms"
        yield backlog(crew, publisher, "packager.slow_redis_mb", text, settings)


def idle(crew):
    worker = crew.start()
    time.sleep(3)
    memory = worker.memory_mb("VmRSS")
    crew.stop()
    return "packager.rss_mb", memory, f"idle: {memory:.0f} MB resident, 3 s after it was ready"


def small(publisher, documents, orders, changes):
    """The changes of each order one behind the other, as short as they can be."""
    for _ in range(orders):
        order, document = documents.smallest()
        publisher.send(order, "replaced", document)
        for step in range(1, changes):
            publisher.send(order, "patched", {"statusDescription": f"step {step}"})
    publisher.flush()


def backlog(crew, publisher, name, text, settings=None):
    """A packager that starts before a backlog, until it is worked off or the time is over."""
    crew.publisher.count += publisher.count
    publisher.count = 0
    total = crew.lag()
    crew.workers.append(Worker(crew.stack, settings).start())
    worker = crew.workers[0]
    began = left = None
    start = time.monotonic()
    while left is None or (left > 0 and time.monotonic() - began < SECONDS):
        if time.monotonic() - start > SECONDS + 30:
            break
        time.sleep(0.2)
        crew.require_running()
        left = crew.lag()
        if began is None and left < total:
            began = time.monotonic()
        left = None if began is None else left
    if left is None:
        raise Failure(f"{text}: none of {total} changes was worked off in {SECONDS + 30} s: {worker.last_words()}")
    seconds = time.monotonic() - began
    peak, now = worker.memory_mb(), worker.memory_mb("VmRSS")
    crew.stop(within=15)
    done = "all" if left <= 0 else f"{total - left:,} of them"
    return name, peak, f"{text}: {peak:.0f} MB at most, {now:.0f} MB at the end; {done} worked off in {seconds:.0f} s"
