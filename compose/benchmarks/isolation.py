"""Measures what a brand whose changes wait costs the others; started by compose/bench."""

import os
import statistics
import subprocess
import time

import latency
import memory
from orders import Documents, add_assets
from report import Report
from stack import Failure, Publisher, Stack
from subject import run
from workers import Crew

RATE = 100
# So many changes of each waiting order, the first of which makes it.
CHANGES = 50
WAITING_TYPE = "order.com.example.waiting"
WAITING_METRIC = f'waybill_waiting_records{{brand="{WAITING_TYPE}"}}'
# Most seconds until all that waited is packaged.
LIMIT = 600


class Neighbour:
    """The brand that waits, as a publisher sees a stack."""

    def __init__(self, stack, binaries):
        self.type, self.env = WAITING_TYPE, stack.env
        self.folder = f"{stack.env['BRANDS']}/{WAITING_TYPE}"
        certificates = f"{stack.folder}/waiting-certificates"
        dev = f"{binaries}/waybill-dev"
        authority = os.path.dirname(stack.env["ROOT_CA"])
        for command in (
            [dev, "certificates", "--out", certificates, "--order-type", self.type, "--authority", authority],
            [dev, "brand", "--out", self.folder, "--order-type", self.type, "--certificates", certificates],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        add_assets(self)
        with open(f"{self.folder}/certificate.pem") as file:
            self.certificate = file.read()

    def hide(self):
        self.write("none")

    def show(self):
        self.write(self.certificate)

    def write(self, certificate):
        with open(f"{self.folder}/certificate.pem", "w") as file:
            file.write(certificate)


class IsolationBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = Stack(arguments.root, arguments.dir)
        self.documents = Documents(arguments.root)
        self.report = Report()

    def run(self):
        add_assets(self.stack)
        self.neighbour = Neighbour(self.stack, self.arguments.bin)
        self.neighbour.hide()
        self.crew = Crew(self.stack)
        try:
            self.measure()
        finally:
            self.crew.close()
        self.report.show()
        return 0

    def measure(self):
        worker = self.crew.start(settings={"WAYBILL_BRANDS_RELOAD_SECONDS": "1"})
        orders = [self.documents.next() for _ in range(RATE * self.arguments.seconds)]
        self.crew.publish((order, "replaced", document) for order, document in orders)
        self.crew.await_done()
        orders = [order for order, _ in orders]
        self.steady(orders[: RATE * 3])
        alone = [self.steady(orders)]
        waiting = self.publish_waiting()
        self.await_metric(worker, waiting)
        beside = [self.steady(orders) for _ in range(2)]
        kept = worker.memory_mb("VmRSS")
        self.neighbour.show()
        self.await_metric(worker, waiting - 1, "at most")
        working, began = self.steady(orders), time.monotonic()
        self.crew.await_done(LIMIT)
        took = time.monotonic() - began
        self.require_all_packaged(worker)
        alone.append(self.steady(orders))

        quiet = statistics.mean(alone)
        self.report.figure("isolation.packager_p99_ratio", statistics.mean(beside) / quiet, 1.5, "at most")
        self.report.figure("isolation.packager_backlog_p99_ratio", working / quiet)
        self.report.figure("isolation.packager_mb", worker.memory_mb(), 256, "at most")
        self.report.note(
            f"p99 from a change to its package at {RATE} changes/s: {self.text(alone)} alone; {self.text(beside)} while "
            f"{waiting:,} changes of another brand wait; {working:.1f} ms while those are worked off")
        self.report.note(
            f"memory: {kept:.0f} MB while they wait, {worker.memory_mb():.0f} MB at most; when the brand was loaded all "
            f"were packaged, each order's last change last, the rest of them in {took:.0f} s")

    @staticmethod
    def text(milliseconds):
        return " and ".join(f"{value:.1f} ms" for value in milliseconds)

    def steady(self, orders):
        """p99 in milliseconds of changes at a steady rate, from the moment before each is sent to its package."""
        before = dict(latency.stamps(self.stack, orders))
        sent = {}
        self.crew.publish(latency.steadily(orders, RATE, sent), {"linger.ms": 0})
        deadline = time.monotonic() + 60
        while True:
            stamps = dict(latency.stamps(self.stack, orders))
            left = sum(stamps[order] == before[order] for order in orders)
            if not left:
                break
            if time.monotonic() > deadline:
                raise Failure(f"{left} of {len(orders)} changes are not packaged after 60 s")
            time.sleep(0.1)
        waits = sorted((stamps[order] - sent[order] // 1000) / 1000 for order in orders)
        return waits[int(len(waits) * 0.99)]

    def publish_waiting(self):
        """Puts the changes that wait on the topic; returns how many there are."""
        publisher = Publisher(self.neighbour, memory.PACKED)
        self.last = {}
        for order, kind, data in memory.small(self.documents, self.arguments.waiting // CHANGES, CHANGES):
            publisher.send(order, kind, data)
            self.last[order] = data.get("statusDescription")
        publisher.flush()
        self.crew.published += publisher.count
        self.require_kept()
        return publisher.count

    def require_kept(self):
        """The embedded broker drops the oldest records of a partition above 5 MiB."""
        for place in self.crew.places:
            first, _ = self.crew.consumer.get_watermark_offsets(place, timeout=10)
            if first > 0:
                raise Failure(f"the broker dropped what waited: try --waiting {self.arguments.waiting // 2}")

    def await_metric(self, worker, count, way="at least"):
        deadline = time.monotonic() + 120
        while True:
            value = worker.metrics().get(WAITING_METRIC, 0)
            if value >= count if way == "at least" else value <= count:
                return
            if time.monotonic() > deadline:
                raise Failure(f"{value:.0f} changes wait and not {way} {count}: {worker.last_words()}")
            time.sleep(0.2)

    def require_all_packaged(self, worker):
        self.require_kept()
        letters = worker.metrics().get("waybill_dead_letters_total", 0)
        if letters:
            raise Failure(f"{letters:.0f} changes became dead letters")
        for order, last in self.last.items():
            self.stack.redis.send("HGET", f"waybill:order:{{{WAITING_TYPE}/{order}}}", "document")
            document = self.stack.redis.reply() or ""
            if f'"{last}"' not in document:
                raise Failure(f"order {order} of the brand that waited is not at {last!r}")


if __name__ == "__main__":
    run(IsolationBench, bin=str, seconds=15, waiting=1_000_000)
