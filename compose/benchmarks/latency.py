"""How long a change takes from Kafka to Redis, while changes come at a steady rate."""

import math
import re
import time

from stack import Failure

BUCKET = re.compile(r'^waybill_change_age_seconds_bucket\{le="([^"]+)"\}$')


class Latency:
    def __init__(self, milliseconds, text):
        self.milliseconds, self.text = sorted(milliseconds), text

    def percentile(self, part):
        return self.milliseconds[min(len(self.milliseconds) - 1, int(len(self.milliseconds) * part))]


def measure(crew, documents, rate, seconds):
    """
    Changes one order after the other, each once, so that Redis keeps the moment of each write.

    The beginning is the moment before the record is handed to the producer, so what the broker needs counts as well;
    the end is the order's `stamp`, which the script that stores a version takes from the server's clock.
    """
    orders = []
    for _ in range(rate * seconds):
        order, document = documents.next()
        orders.append(order)
        crew.publisher.send(order, "replaced", document)
    crew.publisher.flush()
    crew.await_done()
    worker = crew.workers[0]
    ages = buckets(worker)
    sent = {}
    # A publisher of its own, that does not wait for records to gather.
    publisher = type(crew.publisher)(crew.stack, {"linger.ms": 0})
    began = time.monotonic()
    for index, order in enumerate(orders):
        time.sleep(max(0, began + index / rate - time.monotonic()))
        sent[order] = time.time_ns()
        publisher.send(order, "patched", {"statusDescription": f"changed at {sent[order]}"})
    late = time.monotonic() - began - (len(orders) - 1) / rate
    publisher.flush()
    crew.publisher.count += publisher.count
    crew.await_done()
    measured = [(stamp - sent[order] // 1000) / 1000 for order, stamp in stamps(crew.stack, orders)]
    if min(measured) < -1:
        raise Failure(f"an order was written {-min(measured):.0f} ms before its change was sent")
    told = {le: count - ages.get(le, 0) for le, count in buckets(worker).items()}
    text = f"{rate} changes/s for {seconds} s: most took {max(measured):.0f} ms"
    if told:
        text += f"; the packager's histogram of ages until all is done: p50 {quantile(told, 0.5)}, p99 {quantile(told, 0.99)}"
    if late > 0.5:
        text += f"; the last change was sent {late:.1f} s late"
    return Latency(measured, text)


def stamps(stack, orders):
    """When each order's version was stored, in microseconds since 1970."""
    for order in orders:
        stack.redis.send("HGET", f"waybill:order:{{{stack.type}/{order}}}", "stamp")
        stamp = stack.redis.reply()
        if stamp is None:
            raise Failure(f"order {order} has no stamp in Redis")
        yield order, int(stamp)


def buckets(worker):
    """How many changes were at most as old as the bound, by bound in seconds."""
    found = ((BUCKET.match(name), value) for name, value in worker.metrics().items())
    return {math.inf if match[1] == "+Inf" else float(match[1]): value for match, value in found if match}


def quantile(counts, part):
    """The smallest bound that so many are below."""
    total = counts.get(math.inf, 0)
    bound = next(le for le in sorted(counts) if counts[le] >= part * total)
    return f"at most {bound * 1000:.0f} ms"
