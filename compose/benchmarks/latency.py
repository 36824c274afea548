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
    orders = [documents.next() for _ in range(rate * seconds)]
    crew.publish((order, "replaced", document) for order, document in orders)
    crew.await_done()
    worker = crew.workers[0]
    ages = buckets(worker)
    orders = [order for order, _ in orders]
    sent = {}
    # Records are not kept until there are more of them.
    crew.publish(steadily(orders, rate, sent), {"linger.ms": 0})
    crew.await_done()
    measured = [(stamp - sent[order] // 1000) / 1000 for order, stamp in stamps(crew.stack, orders)]
    if min(measured) < -1:
        raise Failure(f"an order was written {-min(measured):.0f} ms before its change was sent")
    told = {le: count - ages.get(le, 0) for le, count in buckets(worker).items()}
    text = f"{rate} changes/s for {seconds} s: at most {max(measured):.0f} ms"
    if told:
        text += f"; by the packager's own histogram: p50 {quantile(told, 0.5)}, p99 {quantile(told, 0.99)}"
    return Latency(measured, text)


def steadily(orders, rate, sent):
    """Gives one change after the other when its time has come, and notes the nanosecond."""
    began = time.monotonic()
    for index, order in enumerate(orders):
        time.sleep(max(0, began + index / rate - time.monotonic()))
        sent[order] = time.time_ns()
        yield order, "patched", {"statusDescription": f"changed at {sent[order]}"}
    late = time.monotonic() - began - len(orders) / rate
    if late > 0.5:
        raise Failure(f"{rate} changes/s cannot be sent: the last one was {late:.1f} s late")


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
