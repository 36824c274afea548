"""Measures the pusher beside HTTP/2's own limit and its peers; started by compose/bench."""

import json
import os
import statistics
import subprocess
import time

import pushing
from nghttpd import AUTHORIZATION, TOPIC, Nghttpd
from report import Report
from stack import Failure, Stack, resident_kb
from subject import run

STREAMS, MANY_STREAMS = 100, 1000
# As many devices as notifications are in hand at once, so that hardly one is told for two records; each record tells 4.
DEVICES = 1000
# The packages in Python are slow, so they get fewer.
PEER_NOTIFICATIONS = {"aioapns": 4000, "httpx": 1000}
QUEUED = 100_000
# The simulator with slow answers: connections and streams of each, and how long one measurement lasts. Its clock starts
# when all connections stand.
SLOW_MILLISECONDS, SLOW_SECONDS = 30, 3
SLOW = ((1, 100), (2, 100), (4, 100), (1, 1000))
CHANGES_A_SECOND = 200


class PusherBench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = Stack(arguments.root, arguments.dir)
        self.folder = f"{arguments.dir}/bench"
        os.makedirs(self.folder, exist_ok=True)
        self.certificates = f"{arguments.dir}/certificates"
        self.program = f"{arguments.bin}/waybill-pusher"
        self.report = Report()
        self.nghttpd = None

    def run(self):
        try:
            self.measure_idle()
            self.measure_stack()
            for service in ("packager", "pusher", "gateway"):
                self.stack.stop(service)
            self.measure_slow_answers()
            self.measure_rates()
            self.measure_queue()
        finally:
            if self.nghttpd:
                self.nghttpd.stop()
            # Also what was measured before something failed.
            if self.report.figures:
                self.report.show()
        return 0

    def load_test(self, port, devices, *words):
        """Made-up records through desk, client and metrics; as many notifications in hand as there are devices."""
        return [self.program, "load-test", "--url", f"https://127.0.0.1:{port}", "--roots",
                f"{self.certificates}/root.pem", "--devices", str(devices), "--ahead", str(devices), *map(str, words)]

    # --- against nghttpd ---------------------------------------------------------------------------------------------

    def measure_rates(self):
        paths = subprocess.run(
            [self.program, "load-test", "--paths", "--devices", str(DEVICES)],
            check=True, capture_output=True, text=True).stdout.split()
        self.nghttpd = server = Nghttpd(self.folder, self.certificates, paths)
        count = self.arguments.notifications
        limit, ours, many = [], [], []
        peers = {name: [] for name in PEER_NOTIFICATIONS}
        # Once in vain, so that the first round finds everything in memory as well.
        server.h2load(count // 10, STREAMS)
        for _ in range(self.arguments.rounds):
            # On both sides, since a machine that is shared does not stay as fast as it is.
            before = server.h2load(count, STREAMS)
            ours.append(self.rate(server, STREAMS))
            limit.append((before, server.h2load(count, STREAMS)))
            many.append((self.rate(server, MANY_STREAMS), self.rate(server, STREAMS)))
            for name in peers:
                peers[name].append(self.peer(server, name, paths))
        self.report.rate("h2load", [result for pair in limit for result in pair])
        self.report.rate("waybill-pusher", ours)
        self.report.rate(f"at {MANY_STREAMS} streams", [result for result, _ in many])
        for name, results in peers.items():
            self.report.rate(f"{name} (Python)", results)

        rates = [sum(result.rate for result in pair) / 2 for pair in limit]
        ratio = statistics.median(mine.rate / theirs for mine, theirs in zip(ours, rates))
        self.report.figure("pusher.ratio_h2load", ratio, 0.80, "at least")
        self.report.figure("pusher.notifications_per_second", statistics.median(r.rate for r in ours))
        self.report.figure("pusher.cpu_microseconds", statistics.median(r.microseconds for r in ours))
        self.report.figure("h2load.cpu_microseconds", statistics.median(r.microseconds for p in limit for r in p))
        self.report.figure(
            f"pusher.ratio_{MANY_STREAMS}_streams", statistics.median(a.rate / b.rate for a, b in many), 0.95,
            "at least")
        for name, results in peers.items():
            self.report.figure(
                f"pusher.ratio_{name}", statistics.median(a.rate / b.rate for a, b in zip(ours, results)))
        self.report.note(
            f"one connection to nghttpd, {STREAMS} streams, provider token, {DEVICES} devices, four of each record; "
            f"{count:,} notifications a round; h2load sends the same apns-id each time, which HPACK makes one byte of")

    def rate(self, server, streams):
        count = self.arguments.notifications
        command = self.load_test(server.port, DEVICES, "--notifications", count, "--streams", streams)
        return server.sender("waybill-pusher", command, None, count)

    def peer(self, server, name, paths):
        count = PEER_NOTIFICATIONS[name]
        job = {
            "package": name, "port": server.port, "roots": server.roots, "authorization": AUTHORIZATION,
            "key": f"{self.certificates}/provider-key.p8", "topic": TOPIC, "notifications": count,
            "devices": [path.rsplit("/", 1)[1] for path in paths],
        }
        script = f"{os.path.dirname(os.path.abspath(__file__))}/pusher/peer.py"
        return server.sender(name, [self.arguments.python, script], job, count)

    def measure_queue(self):
        with pushing.simulator(self.arguments.bin, self.certificates, self.folder, MANY_STREAMS, 0) as port:
            told = self.told(self.load_test(port, QUEUED, "--notifications", QUEUED))
        if told["verdicts"] != {"delivered": QUEUED}:
            raise Failure(f"not all of a long queue was delivered: {told['verdicts']}")
        self.report.figure("pusher.queued_100000_mb", told["peak_mb"], 128, "at most")

    @staticmethod
    def told(command):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if ran.returncode:
            raise Failure(f"load-test says: {ran.stderr.strip()[-300:]}")
        return json.loads(ran.stdout)

    # --- against the simulator ---------------------------------------------------------------------------------------

    def measure_slow_answers(self):
        for connections, streams in SLOW:
            with pushing.simulator(self.arguments.bin, self.certificates, self.folder, streams,
                                   SLOW_MILLISECONDS) as port:
                possible = connections * streams * 1000 / SLOW_MILLISECONDS
                told = self.told(self.load_test(
                    port, 4 * connections * streams, "--notifications", int(possible * SLOW_SECONDS),
                    "--streams", streams, "--connections", connections))
                self.report.figure(
                    f"pusher.slow_{connections}x{streams}", told["rate"] / possible, 0.9, "at least")
                self.report.note(
                    f"answers after {SLOW_MILLISECONDS} ms, {connections} connections of {streams} streams: "
                    f"{told['rate']:.0f}/s of {possible:.0f}/s, {told['verdicts']}")

    # --- the whole stack ---------------------------------------------------------------------------------------------

    def measure_idle(self):
        time.sleep(3)
        self.report.figure("pusher.rss_mb", resident_kb(self.stack.pid("pusher")) / 1024, 64, "at most")

    def measure_stack(self):
        measured = pushing.measure(self.stack, CHANGES_A_SECOND, self.arguments.seconds)
        self.report.figure("stack.push_p50_ms", measured.percentile(0.5))
        self.report.figure("stack.push_p99_ms", measured.percentile(0.99), 50, "at most")
        self.report.note(measured.text)


if __name__ == "__main__":
    run(PusherBench, bin=str, python=str, rounds=5, notifications=200_000, seconds=10)
