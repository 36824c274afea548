"""One, two and four packagers on one topic."""

import json
import os
import time

import memory
import plot
from pace import Repeater
from processes import Usage
from stack import Failure
from workers import CrewBench

FLEETS = (1, 2, 4)
# Changes a second that arrive while the backlog is processed.
STREAM = 200
# Seconds between two readings of the progress.
STEP = 0.25
# What KEDA's queries read, and the seconds between two samples of it.
SAMPLED, SAMPLE = ("waybill_unworked_records", "waybill_waiting_records", "waybill_brand_load_failed"), 1
# The most seconds that a fleet may take for the backlog.
LIMIT = 200
# Numbers of orders after which the memory of two workers is measured.
ORDERS_SEEN = (1_000, 10_000, 100_000)
# For the sizing rule: changes of one order, the ratio of the busiest hours to the mean, days that an order is kept, and
# the part of a worker's capacity that the busiest hours may take, so that it can catch up.
CHANGES_AN_ORDER, PEAK, DAYS, UTILISATION = 10, 5, 30, 0.5


class Run:
    """
    The changes of one fleet that wait, over time in seconds; its processor time; and samples of its metrics: seconds,
    changes without a committed offset, and values by series.
    """

    def __init__(self, workers, backlog):
        self.workers, self.began = workers, time.monotonic()
        self.lags, self.samples = [(0, backlog)], []

    def note(self, lag):
        self.lags.append((time.monotonic() - self.began, lag))

    def is_due(self):
        return len(self.samples) * SAMPLE <= time.monotonic() - self.began

    def sample(self, lag, workers):
        values = {}
        for index, worker in enumerate(workers):
            for name, labels, value in worker.metrics().series:
                if name in SAMPLED:
                    words = ",".join(f'{label}="{text}"' for label, text in labels.items())
                    values[f'{name}{{pod="waybill-packager-{index}",{words}}}'] = value
        self.samples.append((time.monotonic() - self.began, lag, values))

    def recording(self):
        """The samples as JSON can have them; a series has null where it was not exposed."""
        names = sorted({name for _, _, values in self.samples for name in values})
        return {
            "workers": self.workers, "seconds": [round(moment, 1) for moment, _, _ in self.samples],
            "uncommitted": [lag for _, lag, _ in self.samples],
            "series": {name: [values.get(name) for _, _, values in self.samples] for name in names}}

    @property
    def rate(self):
        """Changes a second, from the backlog to its end."""
        return self.changes / self.drained


class FleetBench(CrewBench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.cores = os.cpu_count() or 1
        for option, file in (("svg", arguments.svg), ("samples", arguments.samples)):
            if not os.path.isdir(os.path.dirname(os.path.abspath(file or ""))):
                raise Failure(f"--{option} {file}: must be a file in a folder that exists")

    def measure(self):
        runs = [self.measure_fleet(count) for count in FLEETS]
        self.tell(runs, self.measure_memory())
        self.draw(runs)
        if self.arguments.samples:
            with open(self.arguments.samples, "w") as file:
                file.writelines(f"{json.dumps(run.recording())}\n" for run in runs)

    # --- measurements ------------------------------------------------------------------------------------------------

    def measure_fleet(self, count):
        """
        Returns the run of one fleet.

        Each worker has one processor, as in a container of that size; more workers than processors share them.
        """
        for index in range(count):
            self.crew.start_at_once(core=index % self.cores)
        self.crew.await_ready()
        self.crew.publish(self.documents.next_changes(self.arguments.orders // 20))
        self.crew.await_done()
        keys, size = self.stack.redis.ask("DBSIZE"), self.stack.redis.used_memory()
        with self.crew.frozen():
            self.crew.publish(self.documents.next_changes(self.arguments.orders))
            usage = Usage({
                "workers": self.crew.pids(), "servers": [self.stack.pid("redis"), self.stack.pid("kafka")]})
            before = self.crew.committed()
            run = Run(count, self.arguments.orders)
        with Repeater(self.stream, 10):
            self.follow(run)
            run.drained = time.monotonic() - run.began
            run.changes = self.crew.committed() - before
            run.used = usage.end().used
            # Only the stream continues for three seconds, so that the plot shows the lag of a fleet that keeps up.
            until = time.monotonic() + 3
            while time.monotonic() < until:
                self.look(run)
        self.crew.await_done()
        run.kilobytes = (self.stack.redis.used_memory() - size) / (self.stack.redis.ask("DBSIZE") - keys) / 1000
        run.memory = [worker.memory_mb() for worker in self.crew.workers]
        self.crew.stop()
        return run

    def follow(self, run):
        """Returns when no more changes wait than arrive in half a second."""
        deadline = time.monotonic() + LIMIT
        while self.look(run) > STREAM / 2:
            self.crew.require_running()
            if time.monotonic() > deadline:
                raise Failure(f"{run.workers} workers do not catch up: {self.crew.lag()} changes wait")

    def look(self, run):
        time.sleep(STEP)
        lag = self.crew.lag()
        run.note(max(0, lag))
        if run.is_due():
            run.sample(lag, self.crew.workers)
        return lag

    def stream(self, _):
        """Publishes the new orders of a tenth of a second."""
        self.crew.publish(self.documents.next_changes(STREAM // 10))

    def measure_memory(self):
        """Returns the memory of two workers in MB, by the number of orders that they have seen."""
        self.crew.start(2)
        found, seen = {}, 0
        for orders in ORDERS_SEEN:
            self.crew.publish(memory.small(self.documents, orders - seen, 1))
            seen = orders
            self.crew.await_done()
            found[orders] = [worker.memory_mb("VmRSS") for worker in self.crew.workers]
        self.crew.stop()
        return found

    # --- report ------------------------------------------------------------------------------------------------------

    def tell(self, runs, memory):
        rates = {run.workers: run.rate for run in runs}
        for run in runs:
            self.report.figure(f"fleet.changes_per_second_{run.workers}", run.rate)
            self.report.figure(f"fleet.drain_seconds_{run.workers}", run.drained)
        many = min(self.cores, max(FLEETS))
        wide = max(count for count in FLEETS if count <= many)
        self.report.figure(
            "fleet.scaling", rates[wide] / rates[1], note=f"{wide} workers on as many processors vs. one on one")
        for run in runs:
            microseconds = {name: seconds / run.changes * 1e6 for name, seconds in run.used.items()}
            self.report.note(
                f"{run.workers} × one processor (of {self.cores}): {run.changes} changes in "
                f"{run.drained:.1f} s; per change {microseconds['workers']:.0f} µs of the workers' processors, "
                f"{microseconds['servers']:.0f} µs of Redis' and Kafka's; {max(run.memory):.0f} MB at most")
        for orders, megabytes in memory.items():
            self.report.figure(f"fleet.worker_mb_{orders // 1000}k", max(megabytes), most=256)
        self.size(rates[1], runs[0])

    def size(self, rate, run):
        self.report.note(
            f"sizing, with {CHANGES_AN_ORDER} changes an order, busy hours {PEAK} times the mean, orders kept {DAYS} "
            f"days, workers of one processor")
        self.report.note(
            f"({rate:.0f} changes/s) used to {UTILISATION:.0%} and one spare, four partitions a worker, "
            f"{run.kilobytes:.1f} kB an order in Redis if all are warm (compose/bench cold: a fleet with cold ones):")
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
            return f"{run.workers} worker{'s' if run.workers > 1 else ''}: {run.rate:,.0f}/s"

        text = plot.svg(
            f"{self.arguments.orders:,} changes waiting, {STREAM}/s more coming; {self.cores} processors",
            [(name(run), run.lags) for run in runs], "seconds", "changes waiting")
        with open(self.arguments.svg, "w") as file:
            file.write(text)
        self.report.note(f"plot: {os.path.abspath(self.arguments.svg)}")
