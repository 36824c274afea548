"""Orders that ended long ago: what Redis keeps of them, what restoring them costs, and how fast they are fetched."""

import collections
import concurrent.futures
import itertools
import json
import signal
import threading
import time

from pace import paced
from packager.followed import FOLLOWED, FollowedBench
from processes import Usage
from report import percentile
from stack import Failure, eventually
from topics import ORDERS, Producer

FETCHES_A_SECOND = 200
MONTH = 30 * 86_400
DESCRIPTION = "completed a month ago"
# Fetches a second of warm orders, of packages on request, and of cold orders that cannot be read; the number of warm
# and of cold ones. Each package is asked for once.
WARM_A_SECOND, REQUESTS_A_SECOND, COLD_A_SECOND, SOME = 100, 20, 20, 500
# The answers of as many seconds are awaited at a time: a fetch of a cold order that cannot be read takes up to 6.
COLD_SECONDS = 8
CHANGED = "not packaged yet"
# A fleet of thirty days, and the days after which an order is cold.
DAYS, WARM_DAYS = 30, 6


class ColdBench(FollowedBench):
    def measure(self):
        self.stack.start("gateway")
        count = self.arguments.orders
        empty = self.stack.redis.used_memory()
        self.crew.start(settings={"WAYBILL_PACKAGE": "always"})
        made = list(self.documents.next_changes(count))
        orders = [order for order, _, _ in made]
        self.crew.publish(made)
        self.crew.await_done()
        packaged = (self.stack.redis.used_memory() - empty) / count / 1000
        self.crew.stop()
        warm, usage = self.restore(empty, count)
        warm_cost = usage.used["packager"]
        self.age()
        cold, usage = self.restore(empty, count)
        documents = self.stack.redis.ask_all(
            ("HEXISTS", self.stack.order_key(order), "document") for order in orders)
        if sum(documents):
            raise Failure(f"{sum(documents)} of {count} orders have documents in Redis")
        self.report.figure("cold.kb_per_order", cold, note=f"{warm:.1f} without a package, {packaged:.1f} with one")
        average = (WARM_DAYS * (FOLLOWED * packaged + (1 - FOLLOWED) * warm) + (DAYS - WARM_DAYS) * cold) / DAYS
        self.report.figure("cold.fleet_kb_per_order", average, most=1.5, note=(
            f"of {DAYS} days, {WARM_DAYS} of them warm, with a package for {FOLLOWED:.0%}"))
        self.report.figure("cold.restored_per_cpu_second", count / usage.used["packager"], note=(
            f"in {usage.wall:.1f} s; {count / warm_cost:,.0f} of the same orders when they are warm"))
        self.measure_fetches(orders)
        if self.arguments.outage:
            self.measure_outages(orders)

    def restore(self, empty, count):
        """Empties Redis, and returns kB an order, and the usage, when a packager has filled it again."""
        self.crew.stop()
        self.stack.redis.ask("FLUSHALL")
        worker = self.crew.start_at_once(settings={"WAYBILL_PACKAGE": "followed"})
        usage = Usage({"packager": [worker.pid]} | self.stack.pids("redis", "kafka"))
        self.crew.await_view(300)
        usage.end()
        self.crew.await_ready()
        return (self.stack.redis.used_memory() - empty) / count / 1000, usage

    def age(self):
        """Publishes another version of each order, which was completed a month ago."""
        # In batches as packagers make them: a fetch brings a whole one.
        producer, last = Producer(self.stack.env["KAFKA_BOOTSTRAP"], {"batch.num.messages": 10}), {}
        for message in self.crew.reader.messages(ORDERS):
            last[message.key()] = message
        for message in last.values():
            record = json.loads(message.value())
            record["modified"] -= MONTH
            record["version"] += 1
            record["document"] |= {"status": "completed", "statusDescription": DESCRIPTION}
            producer.put(
                ORDERS, message.key(), json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode(),
                partition=message.partition())
        producer.flush()

    def measure_fetches(self, orders):
        # A packager connects when the first one is read.
        first = self.fetch(orders.pop(), DESCRIPTION)
        count = min(len(orders), FETCHES_A_SECOND * self.arguments.seconds)
        waits = self.fetch_all(orders[:count], FETCHES_A_SECOND, DESCRIPTION)
        self.report.figure("cold.fetch_p50_ms", percentile(waits, 0.5))
        self.report.figure("cold.fetch_p99_ms", percentile(waits, 0.99), most=30, note=(
            f"{count} fetches at {FETCHES_A_SECOND} a second, at most {max(waits):.0f} ms; the very first one "
            f"{first:.0f} ms"))
        again = self.fetch_all(orders[:count], FETCHES_A_SECOND, DESCRIPTION)
        self.report.note(
            f"the same orders, warm: p50 {percentile(again, 0.5):.1f} ms, p99 {percentile(again, 0.99):.1f} ms")

    # --- what needs no cold order, while none can be read ------------------------------------------------------------

    def measure_outages(self, orders):
        """Fetches warm orders, and asks for packages, while partitions have no leader and while Kafka stands still."""
        self.restore(0, 1)
        warm, cold, rest = orders[:SOME], orders[SOME:2 * SOME], iter(orders[2 * SOME:])
        self.fetch_all(warm, FETCHES_A_SECOND, DESCRIPTION)
        periods = [self.arguments.seconds, self.arguments.outage, self.arguments.outage]
        asked = [list(itertools.islice(rest, REQUESTS_A_SECOND * seconds)) for seconds in periods]
        if len(asked[-1]) < REQUESTS_A_SECOND * periods[-1]:
            raise Failure(f"it takes {2 * SOME + REQUESTS_A_SECOND * sum(periods) + 1} orders: see --orders")
        self.crew.publish((order, "patched", {"statusDescription": CHANGED}) for part in asked for order in part)
        self.crew.await_done()
        quiet = self.fetch_both(warm, asked[0])
        partitions = [place.partition for place in self.crew.reader.places(ORDERS)]
        self.outage("no_leaders", quiet, warm, asked[1], cold, (
            lambda: self.stack.take_leaders(ORDERS, partitions), lambda: self.stack.take_leaders(ORDERS, [])))
        self.outage("no_kafka", quiet, warm, asked[2], cold, (
            lambda: self.stack.signal("kafka", signal.SIGSTOP), lambda: self.stack.signal("kafka", signal.SIGCONT)))

    def fetch_both(self, warm, asked):
        """Returns the milliseconds of fetches of warm orders, while packages are asked for, and of the latter."""
        count = len(asked) * WARM_A_SECOND // REQUESTS_A_SECOND
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(self.fetch_all, asked, REQUESTS_A_SECOND, CHANGED)
            return {
                "warm": self.fetch_all(itertools.islice(itertools.cycle(warm), count), WARM_A_SECOND, DESCRIPTION),
                "on_request": waits.result()}

    def outage(self, name, quiet, warm, asked, cold, change):
        ended, answers, (begin, end) = threading.Event(), collections.Counter(), change
        with concurrent.futures.ThreadPoolExecutor(COLD_A_SECOND * COLD_SECONDS) as pool:
            begin()
            try:
                fetching = pool.submit(self.fetch_cold, cold, ended, answers, pool)
                waits = self.fetch_both(warm, asked)
            finally:
                ended.set()
                end()
            fetching.result()
        self.report.note(f"{name}: {sum(answers.values())} fetches of cold orders: {dict(answers)}")
        for kind, values in waits.items():
            p99, before = percentile(values, 0.99), percentile(quiet[kind], 0.99)
            self.report.figure(
                f"cold.{name}_{kind}_p99_ms", p99, most=max(1.5 * before, before + 5), note=(
                    f"{len(values)} fetches, at most {max(values):.0f} ms; {before:.1f} without"))
        began = time.monotonic()
        eventually("all cold orders", lambda: all(self.ask(order).status == 200 for order in cold), 120)
        self.report.note(f"{name}: all cold orders are fetched {time.monotonic() - began:.1f} s after its end")
        # They are cold again.
        self.restore(0, 1)
        self.fetch_all(warm, FETCHES_A_SECOND, DESCRIPTION)

    def fetch_cold(self, cold, ended, answers, pool):
        """Fetches cold orders until the end, and counts the answers by status and their seconds."""
        def fetch(order):
            began = time.monotonic()
            status = self.ask(order).status
            answers[f"{status} within {int(time.monotonic() - began) + 1} s"] += 1

        for future in [pool.submit(fetch, order) for order in itertools.takewhile(
                lambda _: not ended.is_set(), paced(itertools.cycle(cold), COLD_A_SECOND))]:
            future.result()
