"""Measures what a brand that cannot be told costs the others at the pusher; started by compose/bench."""

import json
import multiprocessing
import os
import statistics
import subprocess
import time
import urllib.request

import confluent_kafka

from report import Report
from stack import Failure, Stack, edit_command
from subject import run

RATE = 100
# Changes a second of the brand in trouble: more than five packagers publish on a core each.
BULK_RATE = 10_000
TYPE = "order.com.example.troubled"
TOPIC = "waybill.orders"
# Devices of the brand in trouble: few, so that as many faults are enough.
TOKENS = [f"{0xFFFF0000 + number:064x}" for number in range(64)]
# Most seconds until all that waited is told.
LIMIT = 300
# The faults of the brand in trouble, by the trouble's name; a bulk change is trouble enough without one.
TROUBLES = {
    "a bulk change": None,
    "a refused credential": {"status": 403, "reason": "BadCertificate"},
    "a black hole": {"silence": True},
}


def p99(waits):
    return sorted(waits)[int(len(waits) * 0.99)]


class PusherIsolationBench:
    def __init__(self, arguments):
        self.arguments, self.report = arguments, Report()
        self.stack = Stack(arguments.root, arguments.dir)
        self.producer = self.producer_after(0)
        self.last = 0

    def run(self):
        self.make_brand()
        for service in ("packager", "gateway"):
            self.stack.stop(service)
        # A simulator for both brands.
        self.stack.stop("apns")
        edit_command(self.stack.folder, "apns", "waybill-dev apns", f"waybill-dev apns --topic {TYPE}")
        self.stack.start("apns")
        self.stack.restart("pusher")
        well = {f"well-{number}": f"{number:064x}" for number in range(1, RATE * self.arguments.seconds + 1)}
        troubled = [f"troubled-{number}" for number in range(self.arguments.waiting)]
        self.register(self.stack.type, well)
        self.register(TYPE, {order: TOKENS[number % len(TOKENS)] for number, order in enumerate(troubled)})
        self.steady(well)
        quiet = [p99(self.steady(well))]
        beside = {}
        for name, fault in TROUBLES.items():
            for token in TOKENS if fault else []:
                self.admin("POST", "/faults", fault | {"token": token})
            # A process of its own, which does not hold up the one that measures.
            bulk = multiprocessing.Process(target=self.change, args=(TYPE, troubled, BULK_RATE))
            bulk.start()
            minutes = self.arguments.minutes if name == "a black hole" else 0
            waits, until = self.steady(well), time.monotonic() + 60 * minutes
            while bulk.is_alive() or time.monotonic() < until:
                waits += self.steady(well)
            bulk.join()
            if bulk.exitcode:
                raise Failure(f"publishing the changes of the other brand ended with {bulk.exitcode}")
            beside[name] = p99(waits)
            self.admin("DELETE", "/faults")
            self.await_nothing_pending()
            quiet.append(p99(self.steady(well)))
        self.change(TYPE, troubled)
        backlog = self.steady(well)
        alone = statistics.median(quiet)
        self.report.figure("isolation.pusher_p99_ratio", max(beside.values()) / alone, 1.5, "at most")
        self.report.figure("isolation.pusher_mb", self.memory_mb(), 256, "at most")
        text = ", ".join(f"{value:.1f} ms beside {name}" for name, value in beside.items())
        self.report.note(
            f"p99 from a change to its notification at {RATE} changes/s: {alone:.1f} ms alone; {text} of "
            f"{self.arguments.waiting:,} orders of another brand, all of which were told in the end; the black hole "
            f"lasted {self.arguments.minutes:g} minutes. The others' changes came at {BULK_RATE:,} a second; with all of "
            f"them in the topic beforehand it is {p99(backlog):.1f} ms, and {max(backlog):.1f} ms at most")
        self.report.show()
        return 0

    def make_brand(self):
        certificates = f"{self.stack.folder}/troubled-certificates"
        dev = f"{self.arguments.bin}/waybill-dev"
        authority = os.path.dirname(self.stack.env["ROOT_CA"])
        for command in (
            [dev, "certificates", "--out", certificates, "--order-type", TYPE, "--authority", authority],
            [dev, "brand", "--out", f"{self.stack.env['BRANDS']}/{TYPE}", "--order-type", TYPE,
             "--certificates", certificates],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def register(self, kind, orders):
        """As the gateway does, but for the device's side, which the pusher does not read."""
        for number, (order, token) in enumerate(orders.items()):
            record = json.dumps({"pushToken": token, "registered": 1000})
            self.stack.redis.send("HSET", f"waybill:devices:{{{kind}/{order}}}", f"device-{token}", record)
            if number % 1000 == 999:
                for _ in range(1000):
                    self.stack.redis.reply()
        for _ in range(len(orders) % 1000):
            self.stack.redis.reply()

    def producer_after(self, milliseconds):
        """A producer that collects records for a time."""
        return confluent_kafka.Producer(
            {"bootstrap.servers": self.stack.env["KAFKA_BOOTSTRAP"], "partitioner": "murmur2_random",
             "linger.ms": milliseconds})

    def change(self, kind, orders, rate=None):
        """Publishes changes, as fast as possible or at a rate per second.

        In large batches: the stack's broker answers a fetch with one of each partition, and walks through all there
        are to find it.
        """
        producer, began = self.producer_after(100), time.monotonic()
        for index, order in enumerate(orders):
            if rate and index % 50 == 0:
                time.sleep(max(0, began + index / rate - time.monotonic()))
            while not self.produce(producer, kind, order):
                producer.poll(0.05)
            producer.poll(0)
        if producer.flush(60):
            raise Failure("publishing changes: no answer in 60 s")

    @staticmethod
    def produce(producer, kind, order):
        """Returns whether there was room for it."""
        try:
            producer.produce(TOPIC, key=f"{kind}/{order}", value=b"{}")
            return True
        except BufferError:
            return False

    def steady(self, orders):
        """Milliseconds from the moment before each change is sent, at a steady rate, to its request at the simulator."""
        self.admin("DELETE", "/deliveries")
        began, sent, told, after = time.monotonic(), {}, {}, 0
        for index, order in enumerate(orders):
            time.sleep(max(0, began + index / RATE - time.monotonic()))
            sent[order] = time.time_ns() / 1e6
            self.produce(self.producer, self.stack.type, order)
            self.producer.poll(0)
        self.producer.flush(10)
        deadline, wanted = time.monotonic() + 60, set(orders.values())
        while wanted - told.keys():
            if time.monotonic() > deadline:
                raise Failure(f"{len(wanted - told.keys())} of {len(wanted)} devices were not told within 60 s")
            answer = json.loads(self.admin("GET", f"/deliveries?after={after}&wait=1"))
            after = answer["last"]
            for delivery in answer["deliveries"]:
                if delivery["status"] == 200 and delivery["token"] in wanted:
                    told.setdefault(delivery["token"], delivery["receivedEpochMilliseconds"])
        return [told[token] - sent[order] for order, token in orders.items()]

    def await_nothing_pending(self):
        deadline = time.monotonic() + LIMIT
        while True:
            metrics = self.metrics()
            pending = sum(value for name, value in metrics.items() if name.startswith("waybill_push_pending{"))
            parked = metrics.get("waybill_push_records_parked", 0) + metrics.get("waybill_records_in_hand", 0)
            if pending + parked == 0:
                return
            if time.monotonic() > deadline:
                raise Failure(f"{pending:.0f} orders and {parked:.0f} records still wait after {LIMIT} s")
            time.sleep(1)

    def metrics(self):
        with urllib.request.urlopen(f"{self.stack.env['OPERATIONS_PUSHER']}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def memory_mb(self):
        """The most that was ever resident."""
        with open(f"/proc/{self.stack.pid('pusher')}/status") as file:
            return int(next(line for line in file if line.startswith("VmHWM:")).split()[1]) / 1024

    def admin(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.stack.env['APNS_ADMIN_URL']}{path}", method=method,
            data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()


if __name__ == "__main__":
    run(PusherIsolationBench, bin=str, seconds=15, waiting=200_000, minutes=10.0)
