"""The time to fill Redis again after it was emptied."""

import json
import os
import statistics
import time

from processes import Usage, start_broker
from restore.watch import Watch
from stack import Failure
from topics import CHANGES, Producer
from workers import CrewBench

FLEETS = (1, 2)
# The most seconds that a restore may take.
LIMIT = 300
# Starts of a packager that are compared.
STARTS = 5
# One of this many orders changes last; at least this many of these are looked at, if there are as many.
NEWEST, SAMPLE = 20, 400
# The most keys in Redis that belong to the services and are not restored.
OWN_KEYS = 16
# Orders per registered device.
ORDERS_A_DEVICE = 4


class RestoreBench(CrewBench):
    # Redis keys of orders that changed last.
    newest = ()
    # The broker that this benchmark starts; None: the stack's own.
    broker = None

    def set_up(self):
        if not self.arguments.partitions:
            return super().set_up()
        count = self.arguments.partitions
        topics = {CHANGES: count, "waybill.orders": count, "waybill.registrations": 64, "waybill.push-pending": 16,
                  "waybill.dead-letters": 16}
        self.broker, address = start_broker(self.folder, "kafka", topics)
        self.ending.callback(self.broker.stop)
        super().set_up("--kafka", address, kafka_properties="fetch.wait.max.ms=5\n")

    def measure(self):
        beginning = self.measure_beginning()
        self.register(self.arguments.registrations)
        registrations = {count: self.measure_loss(count) for count in FLEETS}
        self.package(self.arguments.orders)
        both = {count: self.measure_loss(count) for count in FLEETS}
        watch = self.watch()
        self.tell(beginning, registrations, both, watch)
        return watch.wrong + watch.pushes > 0

    def measure_beginning(self):
        """Returns how many seconds more a packager needs to be ready with Redis and Kafka empty."""
        times = {True: [], False: []}
        for _ in range(STARTS):
            for is_empty in (True, False):
                if is_empty:
                    self.stack.redis.ask("FLUSHALL")
                began = time.monotonic()
                self.crew.start()
                times[is_empty].append(time.monotonic() - began)
                self.crew.stop()
        return statistics.median(times[True]) - statistics.median(times[False])

    def register(self, count):
        """Publishes registrations, as the gateway does, for orders that need not exist."""
        producer = Producer(self.stack.env["KAFKA_BOOTSTRAP"], {"linger.ms": 5})
        now = time.time_ns() // 1_000_000
        for number in range(count):
            order = f"{self.stack.type}/bench-{1 + number % self.arguments.orders}"
            key = f"device-{number // ORDERS_A_DEVICE:032x}/{order}"
            value = json.dumps({"format": 1, "pushToken": f"{number:064x}", "registered": now}, separators=(",", ":"))
            producer.put("waybill.registrations", key, value)
        producer.flush()

    def package(self, count):
        self.crew.start()
        self.crew.publish(self.documents.next_changes(count))
        self.crew.await_done(60 + count / 500)
        newest = [f"bench-{number}" for number in range(1, count + 1, NEWEST)]
        self.crew.publish((order, "patched", {"statusDescription": "changed last"}) for order in newest)
        self.crew.await_done()
        self.newest = [self.stack.order_key(order) for order in newest[::max(1, len(newest) // SAMPLE)]]
        self.crew.stop()

    def measure_loss(self, count):
        """Empties Redis while packagers run. Returns the CPU usage until all is restored; `newest` in seconds."""
        self.crew.start(count)
        self.await_complete()
        keys = self.stack.redis.ask("DBSIZE")
        kafka = self.broker.pid if self.broker else self.stack.pid("kafka")
        usage = Usage({"packagers": self.crew.pids(), "Redis": [self.stack.pid("redis")], "Kafka": [kafka]})
        self.stack.redis.ask("FLUSHALL")
        usage.newest = self.await_complete(self.newest) - usage.began
        usage.end()
        if self.stack.redis.ask("DBSIZE") < keys - OWN_KEYS:
            raise Failure(f"Redis had {keys} keys and has {self.stack.redis.ask('DBSIZE')} after restoring")
        self.crew.stop()
        return usage

    def watch(self):
        """Measures one more loss, while devices ask a gateway and a pusher runs."""
        self.crew.start()
        self.await_complete()
        watch = Watch(self.stack, [f"bench-{number}" for number in range(1, self.arguments.orders + 1)])
        self.crew.stop()
        self.measure_loss(1)
        watch.end()
        return watch

    def await_complete(self, newest=()):
        """Waits until Redis has everything; returns the time at which it had these keys."""
        there = None if newest else time.monotonic()

        def is_complete():
            nonlocal there
            found = self.stack.redis.ask("EXISTS", "waybill:1:view:epoch")
            if there is None and self.stack.redis.ask("EXISTS", *newest) == len(newest):
                there = time.monotonic()
            return found

        self.crew.await_all(is_complete, "restoring", LIMIT, 0.02)
        return there or time.monotonic()

    def tell(self, beginning, registrations, both, watch):
        for count in FLEETS:
            alone = registrations[count]
            orders = both[count].wall - alone.wall
            self.report.figure(f"restore.orders_per_second_{count}", self.arguments.orders / orders)
            self.report.figure(
                f"restore.registrations_per_second_{count}", self.arguments.registrations / alone.wall, least=10_000)
        # Without `others`: the machine may be doing other work.
        used = {name: both[1].used[name] - registrations[1].used[name] for name in ("packagers", "Redis", "Kafka")}
        self.report.figure("restore.orders_per_cpu_second", self.arguments.orders / used["packagers"], least=10_000)
        self.report.figure("restore.newest_seconds", both[1].newest, most=5, note=(
            f"from the loss until the {1 / NEWEST:.0%} of the orders that changed last are served"))
        answers = ", ".join(f"{status} {count:,}" for status, count in sorted(watch.answers.items()))
        self.report.figure("restore.wrong_answers", watch.wrong, most=0, note=(
            f"neither 503 nor what was there before the loss; answered {answers}; {watch.told:,} notifications "
            "before the loss"))
        self.report.figure("restore.pushes", watch.pushes, most=0)
        cores = os.cpu_count() or 1
        self.report.figure(
            "restore.orders_per_second_cores", self.arguments.orders * cores / sum(used.values()),
            note="by the processor time of packager, Redis and Kafka, all cores theirs")
        self.report.figure(
            "restore.first_start_seconds", beginning, most=0.3,
            note="ready with Redis and Kafka empty, less ready with a complete view")
        for count in FLEETS:
            for what, loss in (("registrations", registrations[count]), ("and orders", both[count])):
                used = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in loss.used.items())
                self.report.note(
                    f"{count} packager(s), {what}: {loss.wall:.2f} s; processors: {used}, idle {loss.idle:.1f} s")
