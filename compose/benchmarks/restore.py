"""Measures how soon Redis is filled again after it was emptied; started by compose/bench."""

import json
import os
import statistics
import time

import confluent_kafka

from orders import Documents, add_assets
from report import Report
from stack import Failure, Stack, cpu_seconds, machine_seconds
from subject import run
from workers import Crew

FLEETS = (1, 2)
# Most seconds that a restoring may take.
LIMIT = 300
# Starts of a packager that are compared.
STARTS = 5
# Which part of the orders changed last, and how many of these are looked at.
NEWEST, SAMPLE = 0.05, 400
# For how many orders a device is registered.
ORDERS_A_DEVICE = 4


class Loss:
    """What a restoring took: seconds in all and until the newest orders were there, and processors' seconds by who."""

    def __init__(self, seconds, newest, shares):
        self.seconds, self.newest, self.shares = seconds, newest, shares


class RestoreBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = Stack(arguments.root, arguments.dir)
        self.documents = Documents(arguments.root)
        self.newest = ()
        self.report = Report()

    def run(self):
        add_assets(self.stack)
        self.crew = Crew(self.stack)
        try:
            beginning = self.measure_beginning()
            self.register(self.arguments.registrations)
            registrations = {count: self.measure(count) for count in FLEETS}
            self.package(self.arguments.orders)
            both = {count: self.measure(count) for count in FLEETS}
        finally:
            self.crew.close()
        self.tell(beginning, registrations, both)
        self.report.show()
        return 0

    def measure_beginning(self):
        """How much longer a packager takes to be ready where Redis and Kafka are empty, in seconds."""
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
        """Puts registrations into Kafka, as the gateway does, of orders that there need not be."""
        failed = []
        producer = confluent_kafka.Producer({"bootstrap.servers": self.stack.env["KAFKA_BOOTSTRAP"], "linger.ms": 5})
        now = time.time_ns() // 1_000_000
        for number in range(count):
            key = f"device-{number // ORDERS_A_DEVICE:032x}/{self.stack.type}/bench-{1 + number % self.arguments.orders}"
            value = json.dumps({"pushToken": f"{number:064x}", "registered": now}, separators=(",", ":"))
            while True:
                try:
                    producer.produce(
                        "waybill.registrations", key=key, value=value,
                        on_delivery=lambda error, _: error and failed.append(str(error)))
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if producer.flush(30) or failed:
            raise Failure(f"publishing registrations: {failed[:1] or 'no answer in 30 s'}")

    def package(self, count):
        self.crew.start()
        orders = (self.documents.next() for _ in range(count))
        self.crew.publish((order, "replaced", document) for order, document in orders)
        self.crew.await_done(60 + count / 500)
        first = count - max(1, int(count * NEWEST))
        step = max(1, (count - first) // SAMPLE)
        self.newest = [
            f"waybill:order:{{{self.stack.type}/bench-{number}}}" for number in range(first + 1, count + 1, step)]
        self.crew.stop()

    def measure(self, count):
        """Empties Redis under some packagers, and returns when it has everything."""
        self.crew.start(count)
        self.await_complete(time.monotonic() + LIMIT)
        keys = self.stack.redis.ask("DBSIZE")
        who = {"packagers": self.crew.pids(), "Redis": [self.stack.pid("redis")], "Kafka": [self.stack.pid("kafka")]}
        before, machine = {name: cpu_seconds(*pids) for name, pids in who.items()}, machine_seconds()
        began = time.monotonic()
        self.stack.redis.ask("FLUSHALL")
        newest = self.await_complete(began + LIMIT, self.newest) - began
        seconds = time.monotonic() - began
        shares = {name: cpu_seconds(*pids) - before[name] for name, pids in who.items()}
        worked = machine_seconds() - machine
        shares["others"] = max(0, worked - sum(shares.values()))
        shares["idle"] = max(0, seconds * (os.cpu_count() or 1) - worked)
        loss = Loss(seconds, newest, shares)
        if self.stack.redis.ask("DBSIZE") < keys - 1:
            raise Failure(f"Redis had {keys} keys and has {self.stack.redis.ask('DBSIZE')} after restoring")
        self.crew.stop()
        return loss

    def await_complete(self, deadline, newest=()):
        """Until Redis has everything; returns when it had these keys."""
        there = None if newest else time.monotonic()
        while True:
            is_complete = self.stack.redis.ask("EXISTS", "waybill:view:2:epoch")
            if there is None and self.stack.redis.ask("EXISTS", *newest) == len(newest):
                there = time.monotonic()
            if is_complete:
                return there or time.monotonic()
            self.crew.require_running()
            if time.monotonic() > deadline:
                raise Failure(f"not restored within {LIMIT} s: {self.crew.workers[0].last_words()}")
            time.sleep(0.02)

    def tell(self, beginning, registrations, both):
        for count in FLEETS:
            alone = registrations[count]
            orders = both[count].seconds - alone.seconds
            self.report.figure(f"restore.orders_per_second_{count}", self.arguments.orders / orders)
            self.report.figure(
                f"restore.registrations_per_second_{count}", self.arguments.registrations / alone.seconds, 10_000,
                "at least")
        # What the machine is busy with besides says nothing about us.
        used = {name: both[1].shares[name] - registrations[1].shares[name] for name in ("packagers", "Redis", "Kafka")}
        self.report.figure(
            "restore.orders_per_cpu_second", self.arguments.orders / used["packagers"], 10_000, "at least")
        self.report.figure("restore.newest_seconds", both[1].newest, 5, "at most")
        self.report.note(
            f"restore.newest_seconds: from the loss until the {NEWEST:.0%} of the orders that changed last are served")
        self.report.figure(
            "restore.orders_per_second_cores", self.arguments.orders * (os.cpu_count() or 1) / sum(used.values()))
        self.report.note("restore.orders_per_second_cores: by the processor time of packager, Redis and Kafka, all cores theirs")
        self.report.figure("restore.first_start_seconds", beginning, 0.3, "at most")
        self.report.note("restore.first_start_seconds: ready with Redis and Kafka empty, less ready with a complete view")
        for count in FLEETS:
            for what, loss in (("registrations", registrations[count]), ("and orders", both[count])):
                shares = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in loss.shares.items())
                self.report.note(f"{count} packager(s), {what}: {loss.seconds:.2f} s; processors: {shares}")


if __name__ == "__main__":
    run(RestoreBench, orders=20000, registrations=50000)
