"""Measures what a well-behaved client notices of hostile ones; started by compose/bench."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

from client import Connection
from report import Report
from stack import Failure, Publisher, Stack, cpu_seconds, example, resident_kb
from subject import run

ORDERS = 200
TOKEN = "waybill-bench-waybill-bench-0000"
AUTHORIZATION = [("authorization", f"AppleOrder {TOKEN}")]
# Fetches a second of the well-behaved client, and new connections.
RATE, NEWCOMERS = 50, 2
# How long the quiet value is measured.
QUIET_SECONDS = 30
# How long the floods run before they count: connections are opened, code is run for the first time.
WARM_UP_SECONDS = 5


class Client(threading.Thread):
    """Fetches orders at a rate on one connection, and looks whether new connections are let in."""

    def __init__(self, port, paths, seconds):
        super().__init__(daemon=True)
        self.port, self.paths, self.seconds = port, paths, seconds
        self.waits, self.failures, self.admitted, self.refused = [], [], 0, 0

    def run(self):
        connection, began, next_newcomer = None, time.monotonic(), 0.0
        for number in range(int(self.seconds * RATE)):
            due = began + number / RATE
            time.sleep(max(0, due - time.monotonic()))
            started = time.perf_counter()
            try:
                connection = connection or Connection(self.port)
                answer = connection.get(self.paths[number % len(self.paths)], AUTHORIZATION)
                if answer.status != 200:
                    self.failures.append(str(answer.status))
            except OSError as error:
                self.failures.append(str(error))
                connection = None
            self.waits.append((time.perf_counter() - started) * 1000)
            if time.monotonic() >= next_newcomer:
                next_newcomer = time.monotonic() + 1 / NEWCOMERS
                self.knock()
        if connection:
            connection.close()

    def knock(self):
        try:
            newcomer = Connection(self.port)
            newcomer.get(self.paths[0], AUTHORIZATION)
            newcomer.close()
            self.admitted += 1
        except OSError:
            self.refused += 1

    def percentile(self, part):
        return sorted(self.waits)[min(len(self.waits) - 1, int(len(self.waits) * part))]


class HostileBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = Stack(arguments.root, arguments.dir)
        self.report = Report()
        self.flood = None

    def run(self):
        orders = [f"bench-{number}" for number in range(ORDERS)]
        documents = {}
        for order in orders:
            documents[order] = example(self.stack.root) | {"orderNumber": order, "authenticationToken": TOKEN}
        Publisher(self.stack).replace_all(documents)
        self.paths = [self.stack.path(order) for order in orders]
        # They are idle, but the embedded broker answers their fetches at once: that takes a fifth of a core, in bursts,
        # which on a machine with two cores would be what the client waits for.
        for service in ("packager", "pusher"):
            self.stack.stop(service)
        try:
            quiet = self.measure(QUIET_SECONDS)
            memory = resident_kb(self.stack.pid("gateway"))
            self.start_flood()
            time.sleep(WARM_UP_SECONDS)
            before = cpu_seconds(self.flood.pid), cpu_seconds(self.stack.pid("gateway"))
            began = time.monotonic()
            hostile = self.measure(self.arguments.minutes * 60, samples := [])
            wall = time.monotonic() - began
            shares = [
                (now - then) / wall for now, then in
                zip((cpu_seconds(self.flood.pid), cpu_seconds(self.stack.pid("gateway"))), before)]
            counts = self.stop_flood()
        finally:
            if self.flood:
                self.flood.kill()
        self.tell(quiet, hostile, memory, samples, shares, counts)
        return 1 if hostile.failures else 0

    def measure(self, seconds, samples=None):
        """Samples get the gateway's resident kB, four times a second."""
        client = Client(self.stack.gateway_port, self.paths, seconds)
        client.start()
        while client.is_alive():
            client.join(0.25)
            if samples is not None:
                samples.append(resident_kb(self.stack.pid("gateway")))
                if self.flood.poll() is not None:
                    raise Failure("the flood has ended by itself")
        return client

    def start_flood(self):
        # Niced: hostile clients have machines of their own.
        self.flood = subprocess.Popen(
            ["nice", "-n", "10", sys.executable, f"{os.path.dirname(os.path.abspath(__file__))}/hostile_flood.py",
             "--port", str(self.stack.gateway_port), "--type", self.stack.type, "--token", TOKEN],
            stdout=subprocess.PIPE, text=True)

    def stop_flood(self):
        self.flood.terminate()
        output = self.flood.communicate(timeout=30)[0]
        return json.loads(output.splitlines()[-1])

    # --- what it says ------------------------------------------------------------------------------------------------

    def tell(self, quiet, hostile, memory, samples, shares, counts):
        report = self.report
        report.figure("hostile.quiet_p99_ms", quiet.percentile(0.99))
        report.figure("hostile.p99_ms", hostile.percentile(0.99))
        report.figure("hostile.p99_ratio", hostile.percentile(0.99) / quiet.percentile(0.99), 3, "at most")
        report.figure("hostile.gateway_mb", max(samples) / 1024, 150, "at most")
        newcomers = hostile.admitted + hostile.refused
        report.figure("hostile.newcomers_admitted", hostile.admitted / max(1, newcomers), 0.99, "at least")
        report.note(f"{len(hostile.waits)} fetches, {len(hostile.failures)} failed {hostile.failures[:3]}")
        report.note(
            f"p50 {quiet.percentile(0.5):.2f} ms in quiet, {hostile.percentile(0.5):.2f} ms among the floods; "
            f"p99.9 {quiet.percentile(0.999):.2f} and {hostile.percentile(0.999):.2f} ms")
        report.note(
            f"gateway {memory / 1024:.0f} MB before, {samples[-1] / 1024:.0f} MB at the end; seconds of CPU a second: "
            f"floods {shares[0]:.2f}, gateway {shares[1]:.2f}")
        for name, count in counts.items():
            answers = ", ".join(f"{status} {number:,}" for status, number in sorted(count["answers"].items()))
            report.note(
                f"{name}: {count['sent']:,} sent, {count['megabytes']:.0f} MB, {count['open']} connections at the end, "
                f"{count['closed']:,} closed by the gateway; answers {answers or 'none'}")
        with urllib.request.urlopen(f"{self.stack.env['OPERATIONS_GATEWAY']}/metrics", timeout=10) as response:
            for line in response.read().decode().splitlines():
                if line.startswith(("waybill_connections", "waybill_fetches_held")):
                    report.note(line)
        report.show()


if __name__ == "__main__":
    run(HostileBench, minutes=10.0)
