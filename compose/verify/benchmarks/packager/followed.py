"""What is saved if packages that nobody asks for are not made: a stream with both values of WAYBILL_PACKAGE."""

import concurrent.futures
import functools
import io
import itertools
import json
import statistics
import threading
import time
import zipfile

from client import Connection, showing
from devices import Device, Registrar
from pace import paced
from processes import Usage
from report import Round, median_cost, percentile, take_turns
from stack import Failure, derived_token
from workers import CrewBench

# Changes of each order, the first one included, and the part of orders that a device follows.
CHANGES, FOLLOWED = 10, 0.3
FETCHES_A_SECOND, CLIENTS = 100, 32
LAST = f"step {CHANGES - 1}"


class FollowedBench(CrewBench):
    # The connection of each client's thread, each from an address of its own, as devices have.
    own = threading.local()
    clients = itertools.cycle(range(1, 255))

    @functools.cached_property
    def secret(self):
        return self.stack.secret()

    def measure(self):
        self.stack.start("gateway")
        self.registrar = Registrar(self.stack)
        self.ending.callback(self.registrar.close)
        self.numbers, self.signatures, self.unfollowed = itertools.count(), {}, []
        rounds = take_turns(self.arguments.rounds, {
            policy: lambda policy=policy: self.stream(policy) for policy in ("always", "followed")})
        for policy, results in rounds.items():
            self.report.rate(f"package: {policy}", results)
        costs = {policy: median_cost(results) for policy, results in rounds.items()}
        signatures = {policy: statistics.median(counts) for policy, counts in self.signatures.items()}
        self.report.figure("followed.signatures_ratio", signatures["followed"] / signatures["always"], most=0.4)
        self.report.figure("followed.cpu_ratio", costs["followed"] / costs["always"], most=0.4)
        self.report.note(
            f"{self.arguments.orders} orders with {CHANGES} changes each, of which {FOLLOWED:.0%} are followed: "
            + ", ".join(
                f"{policy}: {signatures[policy]:.2f} signatures an order and {1e6 * cost:.0f} us of CPU a change"
                for policy, cost in costs.items()))
        self.measure_fetches()

    def stream(self, policy):
        """Creates orders, registers devices for some of them, and changes each order in turn, some times."""
        self.crew.stop()
        worker = self.crew.start(settings={"WAYBILL_PACKAGE": policy})
        made = list(self.documents.next_changes(self.arguments.orders))
        orders = [order for order, _, _ in made]
        followed = round(len(orders) * FOLLOWED)
        usage = Usage({"packager": [worker.pid]} | self.stack.pids("redis", "kafka"))
        self.crew.publish(made)
        self.crew.await_done()
        self.registrar.register(
            [Device(next(self.numbers), [f"{self.stack.type}/{order}"]) for order in orders[:followed]])
        for step in range(1, CHANGES):
            self.crew.publish((order, "patched", {"statusDescription": f"step {step}"}) for order in orders)
            # So that no two changes of an order are one version.
            self.crew.await_done()
        count = len(orders) * CHANGES
        rate = count / (time.monotonic() - usage.began)
        shares = usage.end().shares()
        self.signatures.setdefault(policy, []).append(
            self.crew.counter("waybill_packages_built_total") / len(orders))
        if policy == "followed":
            self.unfollowed = orders[followed:]
        return Round(rate, shares, usage.used["packager"] / count)

    # --- fetches of orders without a package -------------------------------------------------------------------------

    def measure_fetches(self):
        """Fetches each of the last orders that no device follows, once; then one without a packager."""
        self.crew.stop()
        self.crew.start(settings={"WAYBILL_PACKAGE": "followed"})
        count = min(len(self.unfollowed) - 1, FETCHES_A_SECOND * self.arguments.seconds)
        waits = self.fetch_all(self.unfollowed[:count], FETCHES_A_SECOND, LAST)
        self.report.figure("followed.fetch_p50_ms", percentile(waits, 0.5))
        self.report.figure("followed.fetch_p99_ms", percentile(waits, 0.99), most=60)
        self.report.note(
            f"{count} fetches of packages that were not made, at {FETCHES_A_SECOND} a second: at most {max(waits):.0f} "
            "ms; each had the newest state")
        self.crew.stop()
        began = time.monotonic()
        answer = self.ask(self.unfollowed[count])
        if answer.status != 503 or "retry-after" not in answer.headers:
            raise Failure(f"without a packager a fetch has status {answer.status} and {answer.headers}")
        self.report.note(f"without a packager: 503 with Retry-After after {time.monotonic() - began:.1f} s")

    def fetch_all(self, orders, rate, state):
        """Returns the milliseconds of fetches at a rate, each of which must have a package with this description."""
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return [future.result() for future in [
                pool.submit(self.fetch, order, state) for order in paced(orders, rate)]]

    def fetch(self, order, state):
        """Returns the milliseconds of a fetch."""
        began = time.monotonic()
        answer = self.ask(order)
        wait = 1000 * (time.monotonic() - began)
        if answer.status != 200:
            raise Failure(f"fetching {order}: status {answer.status} {answer.body[:200]}")
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            found = json.loads(archive.read("order.json")).get("statusDescription")
        if found != state:
            raise Failure(f"{order} was fetched with {found!r} instead of {state!r}")
        return wait

    def ask(self, order):
        # The gateway closes those that are idle for longer.
        if time.monotonic() - getattr(self.own, "asked", 0) > 30:
            self.own.connection = Connection(self.stack.gateway_port, f"127.0.1.{next(self.clients)}")
        self.own.asked = time.monotonic()
        token = derived_token(self.secret, f"{self.stack.type}/{order}")
        return self.own.connection.get(self.stack.path(order), showing(token))
