"""Load from h2load, and the processor time of every process involved."""

import random
import re
import subprocess
import time

from processes import Usage
from report import Round
from stack import Failure

# All clients of one h2load request the same paths at about the same time. Several processes, each with the paths in
# another order, make concurrent requests differ, as they do in production.
GENERATORS = 4
WARM_UP = 1


class Load:
    def __init__(self, folder, connections, seconds):
        self.folder, self.connections, self.seconds = folder, connections, seconds
        self.running = []

    def run(self, port, paths, headers, pids, expected, rate=None):
        """
        Sends requests as fast as answers arrive, or at a rate.

        pids: processes whose CPU is reported, by name, the server first. expected: the only acceptable status.
        """
        count = min(GENERATORS, self.connections)
        started = time.monotonic()
        for index in range(count):
            clients = self.connections // count + (index < self.connections % count)
            self.running.append(self.start(index, clients, port, paths, headers, rate))
        generators = [process.pid for process in self.running]
        # Only the middle of the measurement, while all generators are running.
        self.wait_until(started + WARM_UP + 0.3)
        usage = Usage(pids | {"h2load": generators})
        self.wait_until(started + WARM_UP + self.seconds - 0.3)
        shares = usage.end().shares()
        outputs = [process.communicate(timeout=self.seconds + 30)[0] for process in self.running]
        self.running = []
        total = sum(rate_in(output, expected) for output in outputs)
        latencies = self.read_logs(count) if rate else []
        return Round(total, shares, next(iter(shares.values())) / total, latencies)

    def start(self, index, clients, port, paths, headers, rate):
        paths = list(paths)
        random.Random(index).shuffle(paths)
        with open(f"{self.folder}/paths-{index}", "w") as file:
            file.writelines(f"http://127.0.0.1:{port}{path}\n" for path in paths)
        command = [
            "h2load", "--h1", "-t1", f"-c{clients}", f"-D{self.seconds}", f"--warm-up-time={WARM_UP}",
            "-i", f"{self.folder}/paths-{index}",
        ]
        command += words_of(headers)
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

    def stop(self):
        for process in self.running:
            process.kill()
            process.wait()
        self.running = []


def words_of(headers):
    """Returns h2load's arguments for these headers."""
    return [word for name, value in headers for word in ("-H", f"{name}: {value}")]


def rate_in(output, expected):
    """Returns the answers a second that h2load reports; fails unless all have the expected status."""
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", output)
    failures = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", output)
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output)
    if not rate or not failures or not codes:
        raise Failure(f"h2load says: {output.strip()[-500:]}")
    others = sum(int(n) for i, n in enumerate(codes.groups(), start=2) if i != expected // 100)
    if others or any(int(n) for n in failures.groups()):
        raise Failure(f"not every answer is {expected}: {failures.group(0)}; {codes.group(0)}")
    return float(rate.group(1))
