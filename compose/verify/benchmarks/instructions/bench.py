"""The instructions that changes, packages, fetches and notifications cost, compared with the table in this folder."""

import itertools
import json
import os
import signal
import statistics
from pathlib import Path

from client import Connection, showing
from instructions import counters
from memory import PACKED
from simulator import first_told, tell
from stack import Failure, derived_token, eventually, program
from topics import Producer, Reader
from workers import CrewBench

TABLE = Path(__file__).with_name("table.json")
# The difference of two runs counts, so that what a run costs in itself does not. Multiples of the five documents.
PACKAGES, CHANGES, FETCHES, NOTIFICATIONS = (100, 700), (200, 2200), (200, 6200), (200, 8200)
# Orders that are fetched.
ORDERS = 100
# The change of a figure that is marked.
CHANGE = 0.02
# Seconds for a piece of work; valgrind is slow.
PATIENCE = 300
# The broker's empty answers and the commits, of which there are as many as seconds, are rare.
CALM = "fetch.wait.max.ms=500\nauto.commit.interval.ms=5000\n"


class InstructionsBench(CrewBench):
    def set_up(self):
        # Hash tables have the same collisions in each run.
        os.environ["SWIFT_DETERMINISTIC_HASHING"] = "1"
        # Looking at the brands costs as much as many fetches.
        os.environ["WAYBILL_BRANDS_RELOAD_SECONDS"] = "3600"
        super().set_up(kafka_properties=CALM)
        self.counter = counters.chosen(self.folder)

    def measure(self):
        found = {"notification": self.measure_notifications(), "package": self.measure_packages()}
        found |= {"change": self.measure_changes()} | self.measure_fetches()
        before = read_table().get(self.counter.name, {})
        for name, values in found.items():
            self.tell(name, values, before.get(name))
        self.report.note(f"counted by {self.counter.name.split()[0]}; the figures are the medians of these rounds")
        if self.arguments.update:
            write_table(self.counter.name, {name: statistics.median(values) for name, values in found.items()})

    def tell(self, name, values, before):
        now, spread = statistics.median(values), max(values) / min(values) - 1
        self.report.figure(f"instructions.{name}", now, note=(
            f"{', '.join(f'{value:,.0f}' for value in values)}: {spread:.2%} apart"))
        if not before:
            self.report.note(f"{name}: not in the table for {self.counter.name}: write it with --update")
            return
        self.report.figure(f"instructions.{name}_ratio", now / before)
        if abs(now / before - 1) > CHANGE:
            self.report.note(f"{name}: CHANGED by {now / before - 1:+.1%}, from {before:,} in the table")

    def costs(self, pid, sizes, work):
        """Returns the instructions per unit of each round. work: does as many units as it is told."""
        few, many = sizes
        # Pages, connections and caches are there afterwards.
        work(few)
        return [
            (self.counter.count(pid, lambda: work(many)) - self.counter.count(pid, lambda: work(few))) / (many - few)
            for _ in range(self.arguments.rounds)]

    def start_counted(self, service):
        """Starts a service of the stack so that it can be counted. Returns its process id."""
        path = program(f"waybill-{service}")
        self.stack.edit_command(service, path, " ".join(self.counter.command(path)))
        self.stack.start(service)
        return self.stack.pid(service)

    # --- the hot paths -----------------------------------------------------------------------------------------------

    def measure_notifications(self):
        """Counts from a version's record to APNs' answer: each order has one device."""
        apns, count = self.stack.env["APNS_ADMIN_URL"], NOTIFICATIONS[1]
        tokens = {f"{self.stack.type}/push-{number}": f"{number:064x}" for number in range(count)}
        self.stack.redis.ask_all(
            ("HSET", f"waybill:1:devices:{{{order}}}", f"device-{token}",
             json.dumps({"format": 1, "pushToken": token, "registered": 1000})) for order, token in tokens.items())
        pid = self.start_counted("pusher")
        producer = Producer(
            self.stack.env["KAFKA_BOOTSTRAP"], PACKED | {"partitioner": "murmur2_random", "linger.ms": 500})
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"], "waybill-pusher")

        def notify(count):
            some = list(tokens)[:count]
            tell(apns, "/deliveries", "DELETE")
            # Everything is there before it starts, so that batches are as large in each run.
            self.stack.signal("pusher", signal.SIGSTOP)
            try:
                for order in some:
                    producer.put("waybill.orders", order, b"{}")
                producer.flush()
            finally:
                self.stack.signal("pusher", signal.SIGCONT)
            first_told(apns, [tokens[order] for order in some], PATIENCE)
            eventually("commits of the pusher", lambda: reader.lag("waybill.orders") <= 0, PATIENCE, 0.2)

        costs = self.costs(pid, NOTIFICATIONS, notify)
        reader.close()
        self.stack.stop("pusher")
        return costs

    def measure_packages(self):
        """Counts from an order's first change to its package in Redis."""
        worker = self.crew.start(command=self.counter.command(program("waybill-packager")))
        costs = self.costs(worker.pid, PACKAGES, lambda count: self.work_off(self.documents.next_changes(count)))
        self.crew.stop()
        return costs

    def measure_changes(self):
        """Counts from a further change of an order that nobody follows, whose package is not made, to Redis."""
        worker = self.crew.start(
            command=self.counter.command(program("waybill-packager")), settings={"WAYBILL_PACKAGE": "followed"})
        made, steps = list(self.documents.next_changes(CHANGES[1])), itertools.count(1)
        self.work_off(made)

        def change(count):
            state = {"statusDescription": f"step {next(steps)}"}
            self.work_off((order, "patched", state) for order, _, _ in made[:count])

        costs = self.costs(worker.pid, CHANGES, change)
        self.crew.stop()
        return costs

    def work_off(self, changes):
        """Publishes changes for workers that stand still meanwhile, and waits until they are done."""
        with self.crew.frozen():
            self.crew.publish(changes, PACKED)
        self.crew.await_done(PATIENCE)

    def measure_fetches(self):
        """Counts one request after the other on one connection, so that no two share a write to Redis."""
        # A gateway that has lost a connection to Redis asks what a packager says about the view.
        self.stack.start("packager")
        pid = self.start_counted("gateway")
        connection, secret = Connection(self.stack.gateway_port), self.stack.secret()
        requests = []
        for number in range(1, ORDERS + 1):
            order = f"bench-{number}"
            headers = showing(derived_token(secret, f"{self.stack.type}/{order}"))
            tag = connection.get(self.stack.path(order), headers).headers["etag"]
            requests.append((self.stack.path(order), headers, [("if-none-match", tag)]))

        def fetch(count, status):
            for number in range(count):
                path, headers, condition = requests[number % len(requests)]
                answer = connection.get(path, headers + (condition if status == 304 else []))
                if answer.status != status:
                    raise Failure(f"{path}: status {answer.status} instead of {status}")

        costs = {name: self.costs(pid, FETCHES, lambda count, status=status: fetch(count, status))
                 for name, status in (("fetch_200", 200), ("fetch_304", 304))}
        connection.close()
        self.stack.stop("gateway", "packager")
        return costs


def read_table():
    """Returns the instructions by counter and name."""
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def write_table(counter, figures):
    table = read_table() | {counter: {name: round(value) for name, value in sorted(figures.items())}}
    TABLE.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
