"""Measures one, two and four packagers on one topic; started by compose/bench."""

import os
import threading
import time

import plot
from orders import Documents, add_assets
from report import Report
from stack import Failure, Stack, cpu_seconds
from subject import run
from workers import Crew

FLEETS = (1, 2, 4)
# Changes a second that go on coming while the backlog is worked off.
STREAM = 200
# How often it is looked how far they are, in seconds.
STEP = 0.25
# Most seconds that a fleet may take for the backlog.
LIMIT = 200
# Orders that two workers have seen when their memory is looked at.
ORDERS_SEEN = (1_000, 10_000, 100_000)
# For the sizing rule: changes of one order, how much busier than the mean the busiest hours are, days that an order
# is kept, and the part of a worker that they may take, so that there is room to catch up and for one that fails.
CHANGES_AN_ORDER, PEAK, DAYS, UTILISATION = 10, 5, 30, 0.5


class Run:
    """What one fleet did: its lag by seconds, and whose processors it took."""

    def __init__(self, workers, backlog, began):
        self.workers, self.began = workers, began
        self.lags, self.done = [(0, backlog)], [(0, 0)]

    def note(self, lag, done):
        now = time.monotonic() - self.began
        self.lags.append((now, lag))
        self.done.append((now, done))

    def rates(self, window=2.0):
        """Changes a second over the time before, by second: offsets are committed in steps."""
        for moment, done in self.done:
            before = [(then, count) for then, count in self.done if moment - window <= then < moment]
            if before:
                then, count = before[0]
                yield moment, (done - count) / (moment - then)


class FleetBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.cores = os.cpu_count() or 1
        self.stack = Stack(arguments.root, arguments.dir)
        self.documents = Documents(arguments.root)
        self.report = Report()
        self.stopped = threading.Event()

    def run(self):
        add_assets(self.stack)
        self.crew = Crew(self.stack)
        try:
            runs = [self.measure_fleet(count) for count in FLEETS]
            memory = self.measure_memory()
        finally:
            self.stopped.set()
            self.crew.close()
        self.tell(runs, memory)
        self.draw(runs)
        self.report.show()
        return 0

    # --- measurements ------------------------------------------------------------------------------------------------

    def measure_fleet(self, count):
        """Each worker has one processor, as in a container of that size; more workers than processors share them."""
        for index in range(count):
            self.crew.start_at_once(core=index % self.cores)
        self.crew.await_ready()
        self.publish(self.arguments.orders // 20)
        self.crew.await_done()
        keys, memory = self.stack.redis.ask("DBSIZE"), self.stack.redis.used_memory()
        others = [self.stack.pid("redis"), self.stack.pid("kafka")]
        with self.crew.frozen():
            self.publish(self.arguments.orders)
            work, other = cpu_seconds(*self.crew.pids()), cpu_seconds(*others)
            before = self.crew.committed()
            run = Run(count, self.arguments.orders, time.monotonic())
        self.stopped.clear()
        stream = threading.Thread(target=self.stream)
        stream.start()
        try:
            self.follow(run, before)
            run.drained = time.monotonic() - run.began
            run.changes = self.crew.committed() - before
            run.work, run.other = cpu_seconds(*self.crew.pids()) - work, cpu_seconds(*others) - other
            # The stream alone goes on for a moment, so that the plot shows how far behind a fleet is that keeps up.
            until = time.monotonic() + 3
            while time.monotonic() < until:
                self.look(run, before)
        finally:
            self.stopped.set()
            stream.join()
        self.crew.await_done()
        run.kilobytes = (self.stack.redis.used_memory() - memory) / (self.stack.redis.ask("DBSIZE") - keys) / 1000
        run.memory = [worker.memory_mb() for worker in self.crew.workers]
        self.crew.stop()
        return run

    def follow(self, run, before):
        """Until no more waits than came within the last half second."""
        deadline = time.monotonic() + LIMIT
        while self.look(run, before) > STREAM / 2:
            self.crew.require_running()
            if time.monotonic() > deadline:
                raise Failure(f"{run.workers} workers do not catch up: {self.crew.lag()} changes wait")

    def look(self, run, before):
        time.sleep(STEP)
        done = self.crew.committed()
        lag = self.crew.published - done
        run.note(max(0, lag), done - before)
        return lag

    def publish(self, count):
        orders = (self.documents.next() for _ in range(count))
        self.crew.publish((order, "replaced", document) for order, document in orders)

    def stream(self):
        """From a thread of its own: new orders at a steady rate, a tenth of a second at once."""
        began, sent = time.monotonic(), 0
        while not self.stopped.wait(0.1):
            due = int((time.monotonic() - began) * STREAM) - sent
            self.publish(due)
            sent += due

    def measure_memory(self):
        """What two workers have in memory when they have seen more and more orders, in MB by orders."""
        self.crew.start(2)
        found, seen = {}, 0
        for orders in ORDERS_SEEN:
            smallest = (self.documents.smallest() for _ in range(orders - seen))
            self.crew.publish((order, "replaced", document) for order, document in smallest)
            seen = orders
            self.crew.await_done()
            found[orders] = [worker.memory_mb("VmRSS") for worker in self.crew.workers]
        self.crew.stop()
        return found

    # --- what it says ------------------------------------------------------------------------------------------------

    def tell(self, runs, memory):
        rates = {run.workers: run.changes / run.drained for run in runs}
        for run in runs:
            self.report.figure(f"fleet.changes_per_second_{run.workers}", rates[run.workers])
            self.report.figure(f"fleet.drain_seconds_{run.workers}", run.drained)
        many = min(self.cores, max(FLEETS))
        wide = max(count for count in FLEETS if count <= many)
        self.report.figure("fleet.scaling", rates[wide] / rates[1])
        self.report.note(f"fleet.scaling: {wide} workers on as many processors beside one worker on one")
        for run in runs:
            self.report.note(
                f"{run.workers} of one processor each ({self.cores} there are): {run.changes} changes in "
                f"{run.drained:.1f} s; per change {run.work / run.changes * 1e6:.0f} µs of the workers' processors, "
                f"{run.other / run.changes * 1e6:.0f} µs of Redis' and Kafka's; {max(run.memory):.0f} MB at most")
        for orders, megabytes in memory.items():
            self.report.figure(f"fleet.worker_mb_{orders // 1000}k", max(megabytes), 256, "at most")
        self.size(rates[1], runs[0])

    def size(self, rate, run):
        self.report.note(
            f"sizing, with {CHANGES_AN_ORDER} changes an order, busy hours {PEAK} times the mean, orders kept {DAYS} "
            f"days, workers of one processor")
        self.report.note(
            f"({rate:.0f} changes/s) used to {UTILISATION:.0%} and one to spare, four partitions a worker, "
            f"{run.kilobytes:.1f} kB an order in Redis:")
        for orders in (10_000, 100_000, 1_000_000, 5_000_000):
            peak = orders * CHANGES_AN_ORDER * PEAK / 86400
            workers = 1 + -int(-peak // (rate * UTILISATION))
            gigabytes = orders * DAYS * run.kilobytes / 1e6
            self.report.note(
                f"  {orders:9,} orders a day: × {CHANGES_AN_ORDER} × {PEAK} / 86,400 s = {peak:.0f} changes/s: "
                f"{workers} workers, {max(16, 4 * workers)} partitions; "
                f"× {DAYS} × {run.kilobytes:.1f} kB = {gigabytes:,.1f} GB in Redis")

    def draw(self, runs):
        def name(run):
            return f"{run.workers} worker" + ("s" if run.workers > 1 else "")

        text = plot.svg(
            f"{self.arguments.orders:,} changes waiting, {STREAM}/s more coming, workers of one processor each",
            [plot.Panel("changes a second", [(name(run), list(run.rates())) for run in runs]),
             plot.Panel("changes waiting", [(name(run), run.lags) for run in runs])],
            "seconds")
        with open(self.arguments.svg, "w") as file:
            file.write(text)
        self.report.note(f"plot: {os.path.abspath(self.arguments.svg)}")


if __name__ == "__main__":
    run(FleetBench, orders=20000, svg="waybill-fleet.svg")
