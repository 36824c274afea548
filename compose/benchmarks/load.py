"""Load from h2load, and which process the time went to."""

import random
import re
import subprocess
import time

from stack import Failure, cpu_seconds, machine_seconds

# Clients of one h2load ask for the same orders at about the same time. Several, each with an order of its own, see to
# it that what is asked for at once differs, as it does in life.
GENERATORS = 4
WARM_UP = 1


class Result:
    def __init__(self, rate, shares, latencies):
        # Answers a second; seconds of CPU per second by who; milliseconds of single requests.
        self.rate, self.shares, self.latencies = rate, shares, latencies

    def percentile(self, part):
        return sorted(self.latencies)[min(len(self.latencies) - 1, int(len(self.latencies) * part))]


class Load:
    def __init__(self, folder, connections, seconds):
        self.folder, self.connections, self.seconds = folder, connections, seconds
        self.running = []

    def run(self, port, paths, headers, pids, expected, rate=None):
        """
        Asks as fast as answers come, or at a rate.

        pids      whose CPU is told, by name
        expected  the only status there may be
        """
        count = min(GENERATORS, self.connections)
        started = time.monotonic()
        for index in range(count):
            clients = self.connections // count + (index < self.connections % count)
            self.running.append(self.start(index, clients, port, paths, headers, rate))
        generators = [process.pid for process in self.running]
        # In the middle of the measurement, when all generators are at work.
        self.wait_until(started + WARM_UP + 0.3)
        who = pids | {"h2load": generators}
        before, machine = {name: cpu_seconds(*ids) for name, ids in who.items()}, machine_seconds()
        began = time.monotonic()
        self.wait_until(started + WARM_UP + self.seconds - 0.3)
        wall = time.monotonic() - began
        after, worked = {name: cpu_seconds(*ids) for name, ids in who.items()}, machine_seconds() - machine
        outputs = [process.communicate(timeout=self.seconds + 30)[0] for process in self.running]
        self.running = []
        total = sum(self.parse(output, expected) for output in outputs)
        shares = {name: (after[name] - before[name]) / wall for name in who}
        shares["others"] = max(0, worked / wall - sum(shares.values()))
        latencies = self.read_logs(count) if rate else []
        return Result(total, shares, latencies)

    def start(self, index, clients, port, paths, headers, rate):
        paths = list(paths)
        random.Random(index).shuffle(paths)
        with open(f"{self.folder}/paths-{index}", "w") as file:
            file.writelines(f"http://127.0.0.1:{port}{path}\n" for path in paths)
        command = [
            "h2load", "--h1", "-t1", f"-c{clients}", f"-D{self.seconds}", f"--warm-up-time={WARM_UP}",
            "-i", f"{self.folder}/paths-{index}",
        ]
        for name, value in headers:
            command += ["-H", f"{name}: {value}"]
        if rate:
            command += [f"--rps={rate / self.connections:.2f}", f"--log-file={self.folder}/latencies-{index}"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def read_logs(self, count):
        latencies = []
        for index in range(count):
            with open(f"{self.folder}/latencies-{index}") as file:
                latencies += [int(line.split("\t")[2]) / 1000 for line in file]
        return latencies

    @staticmethod
    def wait_until(moment):
        time.sleep(max(0, moment - time.monotonic()))

    @staticmethod
    def parse(output, expected):
        rate = re.search(r"finished in .*?, ([\d.]+) req/s", output)
        failures = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", output)
        codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output)
        if not rate or not failures or not codes:
            raise Failure(f"h2load says: {output.strip()[-500:]}")
        others = sum(int(n) for i, n in enumerate(codes.groups(), start=2) if i != expected // 100)
        if others or any(int(n) for n in failures.groups()):
            raise Failure(f"not every answer is {expected}: {failures.group(0)}; {codes.group(0)}")
        return float(rate.group(1))

    def stop(self):
        for process in self.running:
            process.kill()
            process.wait()
        self.running = []
