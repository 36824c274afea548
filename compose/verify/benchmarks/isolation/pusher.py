"""The notifications of one brand while those of another brand are delayed or fail."""

import json
import math
import multiprocessing
import statistics
import time

from latency import push_waits
from metrics import Metrics
from pace import paced
from processes import memory_mb
from report import percentile
from simulator import tell
from stack import Failure, eventually
from subject import Bench
from topics import Producer

RATE = 100
TYPE = "order.com.example.troubled"
TOPIC = "waybill.orders"
# Devices of the brand in trouble: few, so that few faults suffice.
TOKENS = [f"{0xFFFF0000 + number:064x}" for number in range(64)]
# The most seconds until every order that waited is notified.
LIMIT = 300
# The faults of the brand in trouble, by name; a bulk change needs none.
TROUBLES = {
    "a bulk change": None,
    "a refused credential": {"status": 403, "reason": "BadCertificate"},
    "a black hole": {"silence": True},
}


class PusherIsolation(Bench):
    def measure(self):
        self.apns = self.stack.env["APNS_ADMIN_URL"]
        self.stack.add_brand(TYPE)
        self.stack.stop("packager", "gateway", "apns")
        # One simulator for both brands.
        self.stack.edit_command("apns", "waybill-dev apns", f"waybill-dev apns --topic {TYPE}")
        self.stack.start("apns")
        self.stack.restart("pusher")
        self.producer = self.producer_after(0)
        well = {f"well-{number}": f"{number:064x}" for number in range(1, RATE * self.arguments.seconds + 1)}
        troubled = [f"troubled-{number}" for number in range(self.arguments.waiting)]
        self.register(self.stack.type, well)
        self.register(TYPE, {order: TOKENS[number % len(TOKENS)] for number, order in enumerate(troubled)})
        self.steady(well)
        quiet = [percentile(self.steady(well), 0.99)]
        beside = {}
        for name, fault in TROUBLES.items():
            for token in TOKENS if fault else []:
                tell(self.apns, "/faults", "POST", fault | {"token": token})
            # In another process, so that it does not delay the one that measures.
            bulk = multiprocessing.Process(
                target=self.change, args=(TYPE, troubled, self.arguments.rate), daemon=True)
            bulk.start()
            minutes = self.arguments.minutes if name == "a black hole" else 0
            waits, until = self.steady(well), time.monotonic() + 60 * minutes
            while bulk.is_alive() or time.monotonic() < until:
                waits += self.steady(well)
            bulk.join()
            if bulk.exitcode:
                raise Failure(f"publishing the changes of the other brand ended with {bulk.exitcode}")
            beside[name] = percentile(waits, 0.99)
            tell(self.apns, "/faults", "DELETE")
            self.await_nothing_pending()
            quiet.append(percentile(self.steady(well), 0.99))
        self.change(TYPE, troubled)
        backlog = self.steady(well)
        alone = statistics.median(quiet)
        self.report.figure("isolation.pusher_p99_ratio", max(beside.values()) / alone, most=1.5)
        self.report.figure("isolation.pusher_mb", memory_mb(self.stack.pid("pusher"), "VmHWM"), most=256)
        text = ", ".join(f"{value:.1f} ms beside {name}" for name, value in beside.items())
        self.report.note(
            f"p99 from a change to its notification at {RATE} changes/s: {alone:.1f} ms alone; {text} of "
            f"{self.arguments.waiting:,} orders of another brand, all of which were notified in the end; the black "
            f"hole lasted {self.arguments.minutes:g} minutes. The others' changes came at {self.arguments.rate:,} a "
            f"second; with all of them in the topic beforehand it is {percentile(backlog, 0.99):.1f} ms, at most "
            f"{max(backlog):.1f} ms")

    def register(self, kind, orders):
        """Registers devices as the gateway does, but not the devices' lists of orders, which the pusher ignores."""
        self.stack.redis.ask_all(
            ("HSET", f"waybill:1:devices:{{{kind}/{order}}}", f"device-{token}",
             json.dumps({"format": 1, "pushToken": token, "registered": 1000}))
            for order, token in orders.items())

    def producer_after(self, milliseconds):
        """Returns a producer that batches records for this long."""
        return Producer(
            self.stack.env["KAFKA_BOOTSTRAP"], {"partitioner": "murmur2_random", "linger.ms": milliseconds})

    def change(self, kind, orders, rate=math.inf):
        """
        Publishes changes, as fast as possible or at a rate per second.

        In large batches: the stack's broker answers a fetch with one batch per partition, which it finds by a linear
        search.
        """
        producer = self.producer_after(100)
        for order in paced(orders, rate, 50):
            producer.put(TOPIC, f"{kind}/{order}", b"{}")
        producer.flush()

    def steady(self, orders):
        """Returns the milliseconds from each change to its request at the simulator, at a steady rate."""
        tell(self.apns, "/deliveries", "DELETE")
        return push_waits(
            self.stack, orders, RATE, lambda order: self.producer.put(TOPIC, f"{self.stack.type}/{order}", b"{}"),
            self.producer.flush)

    def await_nothing_pending(self):
        def waiting():
            metrics = Metrics.of(self.stack.env["OPERATIONS_PUSHER"])
            names = ("waybill_push_pending", "waybill_push_records_parked", "waybill_records_in_hand")
            return sum(metrics.total(name) for name in names)

        eventually(lambda: f"notifying the devices of {waiting()} orders", lambda: waiting() == 0, LIMIT, 1)
