"""The time from a change to its package or notification, at a steady rate of changes."""

import math
import time

from pace import paced
from simulator import first_told
from stack import Failure, eventually


def steadily(orders, rate, sent):
    """Yields each order when it is due, and stores that time in `sent`, in nanoseconds since 1970."""
    began = time.monotonic()
    for order in paced(orders, rate):
        sent[order] = time.time_ns()
        yield order
    late = time.monotonic() - began - len(orders) / rate
    if late > 0.1 * len(orders) / rate:
        raise Failure(f"{rate} changes/s cannot be sent: the last one was {late:.1f} s late")


def package_waits(crew, orders, rate):
    """
    Returns the milliseconds from each change to its package. Each order changes once.

    Starts just before the record is passed to the producer, so that the broker's share counts as well; ends at the
    order's `stamp`, which the script that stores a version takes from the Redis server's clock.
    """
    before, sent = stamps(crew.stack, orders), {}
    # The producer does not wait for more records.
    crew.publish(
        ((order, "patched", {"statusDescription": f"changed at {sent[order]}"})
         for order in steadily(orders, rate, sent)),
        {"linger.ms": 0})
    now = {}

    def are_packaged():
        now.update(stamps(crew.stack, orders))
        return all(now[order] != before[order] for order in orders)

    eventually(f"packaging {len(orders)} changes", are_packaged, pause=0.1)
    waits = [(now[order] - sent[order] // 1000) / 1000 for order in orders]
    if min(waits) < -1:
        raise Failure(f"an order was written {-min(waits):.0f} ms before its change was sent")
    return waits


def stamps(stack, orders):
    """Returns the time at which each order's version was stored, in microseconds since 1970."""
    found = stack.redis.ask_all(("HGET", stack.order_key(order), "stamp") for order in orders)
    missing = [order for order, stamp in zip(orders, found) if stamp is None]
    if missing:
        raise Failure(f"order {missing[0]} has no stamp in Redis")
    return dict(zip(orders, map(int, found)))


def push_waits(stack, devices, rate, change, flush):
    """
    Returns the milliseconds from each change to its notification.

    devices: the push token of each order's only device. change: publishes a change of an order. Ends when the
    simulator receives the request, by its own clock, rounded down to whole milliseconds.
    """
    sent = {}
    for order in steadily(list(devices), rate, sent):
        change(order)
    flush()
    told = first_told(stack.env["APNS_ADMIN_URL"], devices.values())
    waits = [told[token] - sent[order] / 1e6 for order, token in devices.items()]
    if min(waits) < -1:
        raise Failure(f"a device was notified {-min(waits):.0f} ms before its order's change was sent")
    return waits


class Ages:
    """The packager's own histogram of the time from a change to its package."""

    def __init__(self, worker):
        self.counts = {
            math.inf if bound == "+Inf" else float(bound): count
            for bound, count in worker.metrics().by("waybill_change_age_seconds_bucket", "le").items()}

    def bound_since(self, before, part):
        """Returns the first bound, in ms, with at least this part of the changes since an earlier reading below it."""
        counts = {bound: count - before.counts.get(bound, 0) for bound, count in self.counts.items()}
        return 1000 * next(bound for bound in sorted(counts) if counts[bound] >= part * counts[math.inf])
