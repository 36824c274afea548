"""Measures the packager beside the bare signature and its peers; started by compose/bench."""

import json
import os
import statistics
import subprocess
import time

import latency
import memory
import sampling
import signing
from orders import Documents, add_assets
from report import Report
from stack import Failure, Redis, Stack, cpu_seconds, machine_seconds
from subject import run
from workers import TOPIC, Crew

# Packages that the openssl program signs in a round, and what the Python packager is given of the round's changes.
PROGRAM_RUNS = 60
PEER_SHARE = 2
PEER_DATABASE = 1
# For conflation: orders and changes of each.
ORDERS, CHANGES = 2000, 10
CHANGES_A_SECOND = 300


class Round:
    """What one packager did with its backlog: packages a second, and who used the processors meanwhile."""

    def __init__(self, packages, wall, cpu, shares):
        self.rate, self.shares, self.per_cpu = packages / wall, shares, packages / cpu


class PackagerBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = Stack(arguments.root, arguments.dir)
        self.folder = f"{arguments.dir}/bench"
        os.makedirs(self.folder, exist_ok=True)
        self.brand = f"{self.stack.env['BRANDS']}/{self.stack.type}"
        self.documents = Documents(arguments.root)
        self.report = Report()
        self.peers = []

    def run(self):
        add_assets(self.stack)
        self.crew = Crew(self.stack)
        try:
            self.measure_rates()
            self.measure_conflation()
            self.measure_latency()
            if self.arguments.profile:
                self.show_profile()
            self.crew.stop()
            self.measure_memory()
        finally:
            for process in self.peers:
                process.kill()
                process.wait()
            self.crew.close()
            # Also what was measured before something failed.
            if self.report.figures:
                self.report.show()
        return 0

    # --- rates -------------------------------------------------------------------------------------------------------

    def measure_rates(self):
        worker = self.crew.start()
        self.fill(200)
        self.crew.await_done()
        ours, python, program, bare = [], [], [], []
        openssl = signing.Program(self.brand, self.folder)
        for _ in range(self.arguments.rounds):
            begin = self.crew.ends()
            # On both sides, since a machine that is shared does not stay as fast as it is.
            before = signing.signs_per_cpu_second()
            ours.append(self.drain(worker, self.arguments.orders))
            bare.append((before + signing.signs_per_cpu_second()) / 2)
            python.append(self.run_python(begin, self.crew.ends()))
            program.append(openssl.per_cpu_second(PROGRAM_RUNS))
        self.verify_python()

        self.report.rate("packager", ours)
        self.report.rate("Python packager", python)
        rates = {
            "RSA-2048 signs of libcrypto (openssl speed)": bare,
            "packages of the packager": [result.per_cpu for result in ours],
            "packages of the Python packager": [result.per_cpu for result in python],
            "signatures of `openssl cms -sign`": program,
        }
        for name, values in rates.items():
            self.report.note(
                f"{name} per second of CPU: {statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})")

        def ratio(theirs):
            return statistics.median(a.per_cpu / b for a, b in zip(ours, theirs))

        self.report.figure("packager.ratio_rsa", ratio(bare), 0.80, "at least")
        self.report.figure("packager.packages_per_cpu_second", statistics.median(r.per_cpu for r in ours))
        self.report.figure("packager.packages_per_second", statistics.median(r.rate for r in ours))
        self.report.figure("packager.ratio_python", ratio([r.per_cpu for r in python]))
        self.report.figure("packager.ratio_openssl_cms", ratio(program))

    def fill(self, count):
        """Publishes orders that there have not been."""
        self.crew.publish(self.event(*self.documents.next()) for _ in range(count))

    @staticmethod
    def event(order, document):
        return order, "replaced", document

    def drain(self, worker, count):
        """A backlog of distinct orders, from its first record until all is committed."""
        keys = self.stack.redis.ask("DBSIZE")
        with self.crew.frozen():
            self.fill(count)
            who = {"packager": [worker.pid]} | {name: [self.stack.pid(name)] for name in ("redis", "kafka")}
            before = {name: cpu_seconds(*pids) for name, pids in who.items()}
            machine, began = machine_seconds(), time.monotonic()
        self.crew.await_orders(keys + count)
        wall = time.monotonic() - began
        worked = machine_seconds() - machine
        self.crew.await_done()
        used = {name: cpu_seconds(*pids) - before[name] for name, pids in who.items()}
        shares = {name: seconds / wall for name, seconds in used.items()}
        shares["others"] = max(0, worked / wall - sum(shares.values()))
        return Round(count, wall, used["packager"], shares)

    def run_python(self, begin, end):
        """The same records again, by Python packagers, one for each processor."""
        count = os.cpu_count() or 1
        ranges = [
            {number: (begin[number], end[number]) for number in sorted(begin)
             if number % PEER_SHARE == 0 and number // PEER_SHARE % count == index}
            for index in range(count)
        ]
        settings = {
            "bootstrap": self.stack.env["KAFKA_BOOTSTRAP"], "redis_port": self.stack.redis_port,
            "redis_database": PEER_DATABASE, "topic": TOPIC, "brand": self.brand, "order_type": self.stack.type,
            "web_service_url": self.stack.env["WEB_SERVICE_URL"],
        }
        script = f"{os.path.dirname(os.path.abspath(__file__))}/packager/peer.py"
        for part in ranges:
            process = subprocess.Popen(
                [self.arguments.python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.peers.append(process)
            process.stdin.write(json.dumps(settings | {"ranges": part}))
            process.stdin.close()
            process.stdin = None
        results = []
        for process in self.peers:
            output, errors = process.communicate(timeout=180)
            if process.returncode:
                raise Failure(f"the Python packager says: {errors.strip()[-500:]}")
            results.append(json.loads(output))
        self.peers = []
        packages, cpu = (sum(result[name] for result in results) for name in ("packages", "cpu"))
        wall = max(result["wall"] for result in results)
        return Round(packages, wall, cpu, {"Python": cpu / wall})

    def verify_python(self):
        """Refuses to compare with packages that Wallet would not take."""
        redis = Redis(self.stack.redis_port)
        redis.ask("SELECT", str(PEER_DATABASE))
        file = f"{self.folder}/python.order"
        with open(file, "wb") as opened:
            redis.send("HGET", redis.ask("RANDOMKEY"), "package")
            opened.write(redis.reply(binary=True))
        redis.ask("FLUSHDB")
        judged = subprocess.run(
            [f"{self.arguments.bin}/waybill-dev", "verify", file, "--root", self.stack.env["ROOT_CA"]],
            capture_output=True, text=True)
        if judged.returncode:
            raise Failure(f"a package of the Python packager is not valid: {(judged.stdout + judged.stderr).strip()}")

    # --- the other figures -------------------------------------------------------------------------------------------

    def measure_conflation(self):
        """A backlog as it grows: one change of each order, then the next of each."""
        counts = {}
        # The embedded broker gives one set of records of a partition a time, as it was sent; a real one gives as many as
        # a megabyte holds.
        for sets, size, linger in (("small", 4, 5), ("large", 10_000, 2000)):
            built = self.crew.counter("waybill_packages_built_total")
            with self.crew.frozen():
                self.crew.publish(self.changes(), {"linger.ms": linger, "batch.num.messages": size})
            self.crew.await_done()
            counts[sets] = self.crew.counter("waybill_packages_built_total") - built
        self.report.figure("packager.signatures_per_order", counts["small"] / ORDERS, 2, "at most")
        self.report.note(
            f"a backlog of {CHANGES} changes for each of {ORDERS} orders took {counts['small']:.0f} signatures; "
            f"{counts['large']:.0f} when Kafka hands out many records of a partition at once")

    def changes(self):
        orders = [self.documents.next() for _ in range(ORDERS)]
        for order, document in orders:
            yield self.event(order, document)
        for step in range(1, CHANGES):
            for order, _ in orders:
                yield order, "patched", {"statusDescription": f"step {step}"}

    def measure_latency(self):
        measured = latency.measure(self.crew, self.documents, CHANGES_A_SECOND, self.arguments.seconds)
        self.report.figure("packager.p50_ms", measured.percentile(0.5))
        self.report.figure("packager.p99_ms", measured.percentile(0.99), 20, "at most")
        self.report.note(measured.text)

    def show_profile(self):
        with self.crew.frozen():
            self.fill(self.arguments.orders * 2)
        groups = sampling.profile(self.crew.workers[0].pid, f"{self.folder}/perf.data")
        self.crew.await_done()
        self.report.note("where the packager's processor time goes:")
        for name, part, most in groups:
            self.report.note(f"  {name:16} {part:6.1%}  {most}")

    def measure_memory(self):
        for name, value, text in memory.measure(self.crew, self.documents):
            target = (64, "at most") if name == "packager.rss_mb" else (256, "at most")
            self.report.figure(name, value, *target)
            self.report.note(text)


if __name__ == "__main__":
    run(PackagerBench, bin=str, python=str, rounds=5, orders=4000, seconds=10, profile=False)
