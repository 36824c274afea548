"""A well-behaved client among hostile ones."""

import json
import random
import subprocess
import sys
import threading
import time

from client import Connection
from metrics import Metrics
from processes import Usage, memory_mb
from report import percentile
from stack import Failure
from subject import AUTHORIZATION, HERE, TOKEN, Bench
from topics import Publisher

ORDERS = 200
# Fetches and new connections a second of the well-behaved client.
RATE, NEWCOMERS = 50, 2
QUIET_SECONDS = 30
# The first seconds of the floods do not count: connections are opened, and code runs for the first time.
WARM_UP_SECONDS = 5


class Client(threading.Thread):
    """
    Fetches orders on one connection, and opens new connections, which may be refused.

    Its fetches come at random intervals: at equal ones they would always, or never, meet the floods' next batch.
    """

    def __init__(self, port, paths, seconds, headers=AUTHORIZATION):
        super().__init__(daemon=True)
        self.port, self.paths, self.seconds, self.headers = port, paths, seconds, headers
        self.waits, self.failures, self.admitted, self.refused = [], [], 0, 0

    def run(self):
        connection, due, next_newcomer = None, time.monotonic(), 0.0
        lot = random.Random(1)
        for number in range(int(self.seconds * RATE)):
            due += lot.expovariate(RATE)
            time.sleep(max(0, due - time.monotonic()))
            started = time.perf_counter()
            try:
                connection = connection or Connection(self.port)
                answer = connection.get(self.paths[number % len(self.paths)], self.headers)
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
            newcomer.get(self.paths[0], self.headers)
            newcomer.close()
            self.admitted += 1
        except OSError:
            self.refused += 1

    def percentile(self, part):
        return percentile(self.waits, part)


class Flooding(Bench):
    """A subject with hostile clients."""

    def start_flood(self, port, *words):
        # At a lower priority, since real hostile clients run on other machines.
        self.flood = self.ending.enter_context(subprocess.Popen(
            ["nice", "-n", "10", sys.executable, f"{HERE}/hostile/flood.py", str(port), *words],
            stdout=subprocess.PIPE, text=True, start_new_session=True))
        self.ending.callback(self.flood.kill)

    def stop_flood(self):
        self.flood.terminate()
        output = self.flood.communicate(timeout=30)[0]
        return json.loads(output.splitlines()[-1])

    def wait(self, seconds):
        """Waits while the flood runs."""
        due = time.monotonic() + seconds
        while time.monotonic() < due:
            if self.flood.poll() is not None:
                raise Failure("the flood ended unexpectedly")
            time.sleep(0.25)


class HostileBench(Flooding):
    def measure(self):
        orders = [f"bench-{number}" for number in range(ORDERS)]
        Publisher(self.stack).replace_with_example(orders, TOKEN)
        self.paths = [self.stack.path(order) for order in orders]
        # They are idle, but they ask the embedded broker every 5 ms: that takes a fifth of a core, in bursts, for which
        # the client would wait on a machine with two cores.
        self.stack.stop("packager", "pusher")
        gateway = self.stack.pid("gateway")
        quiet = self.fetch(QUIET_SECONDS)
        memory = memory_mb(gateway)
        self.start_flood(self.stack.gateway_port, "mixed", self.stack.type, TOKEN)
        self.wait(WARM_UP_SECONDS)
        usage = Usage({"floods": [self.flood.pid], "gateway": [gateway]})
        hostile = self.fetch(self.arguments.minutes * 60, samples := [])
        shares = usage.end().shares()
        self.tell(quiet, hostile, memory, samples, shares, self.stop_flood())
        return len(hostile.failures) > 0

    def fetch(self, seconds, samples=None):
        """Runs and returns the well-behaved client. samples: gets the gateway's resident MB, four times a second."""
        client = Client(self.stack.gateway_port, self.paths, seconds)
        client.start()
        while client.is_alive():
            client.join(0.25)
            if samples is not None:
                samples.append(memory_mb(self.stack.pid("gateway")))
                if self.flood.poll() is not None:
                    raise Failure("the flood ended unexpectedly")
        return client

    # --- report ------------------------------------------------------------------------------------------------------

    def tell(self, quiet, hostile, memory, samples, shares, counts):
        report = self.report
        report.figure("hostile.quiet_p99_ms", quiet.percentile(0.99))
        report.figure("hostile.p99_ms", hostile.percentile(0.99))
        report.figure("hostile.p99_ratio", hostile.percentile(0.99) / quiet.percentile(0.99), most=3)
        report.figure("hostile.gateway_mb", max(samples), most=150)
        newcomers = hostile.admitted + hostile.refused
        report.figure("hostile.newcomers_admitted", hostile.admitted / max(1, newcomers), least=0.99)
        report.note(f"{len(hostile.waits)} fetches, {len(hostile.failures)} failed {hostile.failures[:3]}")
        report.note(
            f"p50 {quiet.percentile(0.5):.2f} ms when quiet, {hostile.percentile(0.5):.2f} ms during the floods; "
            f"p99.9 {quiet.percentile(0.999):.2f} and {hostile.percentile(0.999):.2f} ms")
        report.note(
            f"gateway {memory:.0f} MB before, {samples[-1]:.0f} MB at the end; seconds of CPU a second: "
            f"floods {shares['floods']:.2f}, gateway {shares['gateway']:.2f}")
        for name, count in counts.items():
            answers = ", ".join(f"{status} {number:,}" for status, number in sorted(count["answers"].items()))
            report.note(
                f"{name}: {count['sent']:,} sent, {count['megabytes']:.0f} MB, {count['open']} connections at the end, "
                f"{count['closed']:,} closed by the gateway; answers {answers or 'none'}")
        for name, labels, value in Metrics.of(self.stack.env["OPERATIONS_GATEWAY"]).series:
            if name.startswith(("waybill_connections", "waybill_fetches_held")):
                report.note(" ".join([name, *labels.values(), f"{value:.0f}"]))
