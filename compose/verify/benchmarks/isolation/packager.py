"""The packaging of one brand while changes of another brand wait."""

import copy
import statistics
import time
from pathlib import Path

from latency import package_waits
from memory import PACKED, small
from orders import add_pictures
from report import percentile
from stack import Failure, eventually
from topics import CHANGES as TOPIC
from workers import CrewBench

RATE = 100
# Changes of each waiting order; the first one creates it.
CHANGES = 50
WAITING_TYPE = "order.com.example.waiting"
# The most seconds until everything that waited is packaged.
LIMIT = 600


class PackagerIsolation(CrewBench):
    def set_up(self):
        super().set_up()
        brand = self.stack.add_brand(WAITING_TYPE)
        add_pictures(brand)
        self.certificate = Path(f"{brand}/certificate.pem")
        # The stack with the other brand's order type, for its publisher.
        self.waiting = copy.copy(self.stack)
        self.waiting.type = WAITING_TYPE

    def measure(self):
        certificate = self.certificate.read_text()
        # A brand cannot be loaded while its certificate is invalid.
        self.certificate.write_text("none")
        worker = self.crew.start(settings={"WAYBILL_BRANDS_RELOAD_SECONDS": "1"})
        made = list(self.documents.next_changes(RATE * self.arguments.seconds))
        self.crew.publish(made)
        self.crew.await_done()
        orders = [order for order, _, _ in made]
        self.steady(orders[: RATE * 3])
        alone = [self.steady(orders)]
        waiting = self.publish_waiting()
        self.await_waiting(worker, lambda count: count >= waiting)
        beside = [self.steady(orders) for _ in range(2)]
        resting = worker.memory_mb("VmRSS")
        self.certificate.write_text(certificate)
        self.await_waiting(worker, lambda count: count < waiting)
        working, began = self.steady(orders), time.monotonic()
        self.crew.await_done(LIMIT)
        took = time.monotonic() - began
        self.require_all_packaged(worker)
        alone.append(self.steady(orders))

        quiet = statistics.mean(alone)
        self.report.figure("isolation.packager_p99_ratio", statistics.mean(beside) / quiet, most=1.5)
        self.report.figure("isolation.packager_backlog_p99_ratio", working / quiet)
        self.report.figure("isolation.packager_mb", worker.memory_mb(), most=256)
        self.report.note(
            f"p99 from a change to its package at {RATE} changes/s: {self.text(alone)} alone; {self.text(beside)} "
            f"while {waiting:,} changes of another brand wait; {working:.1f} ms while those are worked off")
        self.report.note(
            f"memory: {resting:.0f} MB while they wait, {worker.memory_mb():.0f} MB at most; once the brand was loaded "
            f"all were packaged, each order's last change last, the rest of them in {took:.0f} s")

    @staticmethod
    def text(milliseconds):
        return " and ".join(f"{value:.1f} ms" for value in milliseconds)

    def steady(self, orders):
        """Returns the p99 in milliseconds from change to package at a steady rate."""
        return percentile(package_waits(self.crew, orders, RATE), 0.99)

    def publish_waiting(self):
        """Publishes the changes that have to wait, and returns their number."""
        self.last = {}

        def changes():
            for order, kind, data in small(self.documents, self.arguments.waiting // CHANGES, CHANGES):
                self.last[order] = data.get("statusDescription")
                yield order, kind, data

        count = self.crew.publish(changes(), PACKED, self.waiting)
        self.crew.require_complete(TOPIC)
        return count

    def await_waiting(self, worker, is_reached):
        def count():
            return worker.metrics().total("waybill_waiting_records", brand=WAITING_TYPE)

        eventually(lambda: f"a count other than {count()} of waiting changes", lambda: is_reached(count()), 120, 0.2)

    def require_all_packaged(self, worker):
        self.crew.require_complete(TOPIC)
        dead_letters = worker.metrics().total("waybill_dead_letters_total")
        if dead_letters:
            raise Failure(f"{dead_letters} changes became dead letters")
        documents = self.stack.redis.ask_all(
            ("HGET", self.waiting.order_key(order), "document") for order in self.last)
        for (order, last), document in zip(self.last.items(), documents):
            if f'"{last}"' not in (document or ""):
                raise Failure(f"order {order} of the brand that waited is not at {last!r}")
