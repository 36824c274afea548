"""Orders that ended long ago: what Redis keeps of them, what restoring them costs, and how fast they are fetched."""

import json

from packager.followed import FOLLOWED, FollowedBench
from processes import Usage
from report import percentile
from stack import Failure
from topics import ORDERS, Producer

FETCHES_A_SECOND = 200
MONTH = 30 * 86_400
DESCRIPTION = "completed a month ago"
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
