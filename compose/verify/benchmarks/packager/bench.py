"""The packager compared with bare signatures and with its peers."""

import concurrent.futures
import json
import os
import statistics
import time
from pathlib import Path

import memory
from latency import Ages, package_waits
from packager import sampling, signing
from processes import Usage, output_of
from report import Round, median_rate, median_ratio, percentile
from stack import Redis, program
from subject import HERE, PEER_PYTHON, PROMPT_FETCHES
from topics import CHANGES as TOPIC
from workers import CrewBench

# Packages that the openssl program signs in a round; the Python packager gets one of this many partitions of the round.
PROGRAM_RUNS = 60
PEER_SHARE = 2
PEER_DATABASE = 1
# For conflation: orders and changes of each.
ORDERS, CHANGES = 2000, 10
CHANGES_A_SECOND = 300


class PackagerBench(CrewBench):
    def set_up(self):
        super().set_up(kafka_properties=PROMPT_FETCHES)

    def measure(self):
        self.measure_rates()
        self.measure_conflation()
        self.measure_latency()
        if self.arguments.profile:
            self.show_profile()
        self.crew.stop()
        self.measure_memory()

    # --- rates -------------------------------------------------------------------------------------------------------

    def measure_rates(self):
        worker = self.crew.start()
        self.crew.publish(self.documents.next_changes(200))
        self.crew.await_done()
        ours, python, openssl, bare = [], [], [], []
        tool = signing.Tool(self.stack.brand, self.folder)
        for _ in range(self.arguments.rounds):
            begin = self.crew.reader.ends(TOPIC)
            # Before and after, because the speed of a shared machine varies.
            before = signing.signs_per_cpu_second()
            ours.append(self.drain(worker, self.arguments.orders))
            bare.append((before + signing.signs_per_cpu_second()) / 2)
            python.append(self.run_python(begin, self.crew.reader.ends(TOPIC)))
            openssl.append(tool.per_cpu_second(PROGRAM_RUNS))
        self.verify_python()

        self.report.rate("packager", ours)
        self.report.rate("Python packager", python)
        packages, peers = [1 / result.cost for result in ours], [1 / result.cost for result in python]
        rates = {
            "RSA-2048 signs of libcrypto (openssl speed)": bare,
            "packages of the packager": packages,
            "packages of the Python packager": peers,
            "signatures of `openssl cms -sign`": openssl,
        }
        for name, values in rates.items():
            self.report.note(
                f"{name} per second of CPU: {statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})")
        self.report.figure("packager.ratio_rsa", median_ratio(packages, bare), least=0.8)
        self.report.figure("packager.packages_per_cpu_second", statistics.median(packages))
        self.report.figure("packager.packages_per_second", median_rate(ours))
        self.report.figure("packager.ratio_python", median_ratio(packages, peers))
        self.report.figure("packager.ratio_openssl_cms", median_ratio(packages, openssl))

    def drain(self, worker, count):
        """Works off a backlog of distinct orders: rate until all are in Redis, CPU until all are committed."""
        keys = self.stack.redis.ask("DBSIZE")
        with self.crew.frozen():
            self.crew.publish(self.documents.next_changes(count))
            usage = Usage({"packager": [worker.pid]} | self.stack.pids("redis", "kafka"))
        self.crew.await_orders(keys + count)
        rate = count / (time.monotonic() - usage.began)
        self.crew.await_done()
        return Round(rate, usage.end().shares(), usage.used["packager"] / count)

    def run_python(self, begin, end):
        """Packages the same records, of one partition in PEER_SHARE, with a Python packager per processor."""
        count = os.cpu_count() or 1
        settings = {
            "bootstrap": self.stack.env["KAFKA_BOOTSTRAP"], "redis_port": self.stack.redis_port,
            "redis_database": PEER_DATABASE, "topic": TOPIC, "brand": self.stack.brand, "order_type": self.stack.type,
            "web_service_url": self.stack.env["WEB_SERVICE_URL"],
        }
        parts = [
            {number: (begin[number], end[number]) for number in sorted(begin)
             if number % PEER_SHARE == 0 and number // PEER_SHARE % count == index}
            for index in range(count)
        ]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            outputs = pool.map(
                lambda ranges: output_of(
                    [PEER_PYTHON, f"{HERE}/packager/peer.py"], json.dumps(settings | {"ranges": ranges})),
                parts)
            results = [json.loads(output) for output in outputs]
        packages, cpu = (sum(result[name] for result in results) for name in ("packages", "cpu"))
        wall = max(result["wall"] for result in results)
        return Round(packages / wall, {"Python": cpu / wall}, cpu / packages)

    def verify_python(self):
        """Fails if Wallet would not accept the Python packages, of which it verifies one at random."""
        redis = Redis(self.stack.env["REDIS_URL"])
        redis.ask("SELECT", str(PEER_DATABASE))
        file = f"{self.folder}/python.order"
        package = redis.ask("HGET", redis.ask("RANDOMKEY"), "package")
        Path(file).write_bytes(package.encode(errors="surrogateescape"))
        redis.ask("FLUSHDB")
        output_of([program("waybill-dev"), "verify", file, "--root", self.stack.env["ROOT_CA"]])

    # --- the other figures -------------------------------------------------------------------------------------------

    def measure_conflation(self):
        """Counts the signatures of a backlog: one change of each order, then the next of each, and so on."""
        counts = {}
        # The embedded broker delivers one record set of a partition per fetch, as it was sent; a real broker delivers
        # as many as fit into a megabyte.
        for sets, size, linger in (("small", 4, 5), ("large", 10_000, 2000)):
            built = self.crew.counter("waybill_packages_built_total")
            with self.crew.frozen():
                self.crew.publish(self.changes(), {"linger.ms": linger, "batch.num.messages": size})
            self.crew.await_done()
            counts[sets] = self.crew.counter("waybill_packages_built_total") - built
        self.report.figure("packager.signatures_per_order", counts["small"] / ORDERS, most=2)
        self.report.note(
            f"a backlog of {CHANGES} changes for each of {ORDERS} orders took {counts['small']:.0f} signatures; "
            f"{counts['large']:.0f} when Kafka delivers many records of a partition at once")

    def changes(self):
        made = list(self.documents.next_changes(ORDERS))
        yield from made
        for step in range(1, CHANGES):
            for order, _, _ in made:
                yield order, "patched", {"statusDescription": f"step {step}"}

    def measure_latency(self):
        made = list(self.documents.next_changes(CHANGES_A_SECOND * self.arguments.seconds))
        self.crew.publish(made)
        self.crew.await_done()
        before = Ages(self.crew.workers[0])
        waits = package_waits(self.crew, [order for order, _, _ in made], CHANGES_A_SECOND)
        self.crew.await_done()
        after = Ages(self.crew.workers[0])
        self.report.figure("packager.p50_ms", percentile(waits, 0.5))
        self.report.figure("packager.p99_ms", percentile(waits, 0.99), most=20)
        self.report.note(
            f"{CHANGES_A_SECOND} changes/s for {self.arguments.seconds} s: at most {max(waits):.0f} ms; by the "
            f"packager's own histogram: p50 at most {after.bound_since(before, 0.5):.0f} ms, "
            f"p99 at most {after.bound_since(before, 0.99):.0f} ms")

    def show_profile(self):
        with self.crew.frozen():
            self.crew.publish(self.documents.next_changes(self.arguments.orders * 2))
        groups = sampling.profile(self.crew.workers[0].pid, f"{self.folder}/perf.data")
        self.crew.await_done()
        self.report.note("the packager's processor time:")
        for name, part, most in groups:
            self.report.note(f"  {name:16} {part:6.1%}  {most}")

    def measure_memory(self):
        for name, value, text in memory.measure(self.crew, self.documents):
            self.report.figure(name, value, most=64 if name == "packager.rss_mb" else 256)
            self.report.note(text)
