"""The pusher compared with h2load, the limit of HTTP/2, and with its peers."""

import contextlib
import json
import statistics
import time

from devices import Device, Registrar
from latency import push_waits
from processes import free_ports, memory_mb, output_of, start_with_address
from pusher.nghttpd import BEARER, TOPIC, Nghttpd
from report import median_cost, median_rate, median_ratio, percentile
from simulator import first_told, tell
from stack import SERVICES, Failure, program
from subject import HERE, PEER_PYTHON, PROMPT_FETCHES, Bench
from topics import Publisher

STREAMS, MANY_STREAMS = 100, 1000
# As many devices as notifications in hand, so that few devices are in two records at once; each record has 4 devices.
DEVICES = 1000
# The Python packages are slow, so they get fewer notifications.
PEER_NOTIFICATIONS = {"aioapns": 4000, "httpx": 1000}
QUEUED = 100_000
# The simulator with slow answers: its delay, the length of one measurement, pairs of connections and streams of each.
# The load test's clock starts when all connections are established.
SLOW_MILLISECONDS, SLOW_SECONDS = 30, 3
SLOW = ((1, 100), (2, 100), (4, 100), (1, 1000))
CHANGES_A_SECOND = 200


class PusherBench(Bench):
    def set_up(self):
        super().set_up(kafka_properties=PROMPT_FETCHES)

    def measure(self):
        self.certificates = f"{self.stack.folder}/certificates"
        self.measure_idle()
        self.measure_stack()
        self.stack.stop(*SERVICES)
        self.measure_slow_answers()
        self.measure_rates()
        self.measure_queue()

    def load_test(self, port, devices, *words):
        """Returns the command that sends generated records through the pusher: a notification in hand per device."""
        return [program("waybill-dev"), "load-test", "--url", f"https://127.0.0.1:{port}", "--roots",
                f"{self.certificates}/root.pem", "--devices", str(devices), "--ahead", str(devices), *map(str, words)]

    # --- against nghttpd ---------------------------------------------------------------------------------------------

    def measure_rates(self):
        paths = output_of([program("waybill-dev"), "load-test", "--paths", "--devices", str(DEVICES)]).split()
        server = Nghttpd(self.folder, self.certificates, paths)
        self.ending.callback(server.process.stop)
        count = self.arguments.notifications
        limit, ours, many = [], [], []
        peers = {name: [] for name in PEER_NOTIFICATIONS}
        # A discarded run, so that the first round finds everything in memory as well.
        server.h2load(count // 10, STREAMS)
        for _ in range(self.arguments.rounds):
            # Before and after, because the speed of a shared machine varies.
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

        rates, limits = [result.rate for result in ours], [(a.rate + b.rate) / 2 for a, b in limit]
        self.report.figure("pusher.ratio_h2load", median_ratio(rates, limits), least=0.8)
        self.report.figure("pusher.notifications_per_second", median_rate(ours))
        self.report.figure("pusher.cpu_microseconds", median_cost(ours) * 1e6)
        self.report.figure("h2load.cpu_microseconds", median_cost(result for pair in limit for result in pair) * 1e6)
        self.report.figure(
            f"pusher.ratio_{MANY_STREAMS}_streams", statistics.median(a.rate / b.rate for a, b in many), least=0.95)
        for name, results in peers.items():
            self.report.figure(f"pusher.ratio_{name}", median_ratio(rates, [result.rate for result in results]))
        self.report.note(
            f"one connection to nghttpd, {STREAMS} streams, provider token, {DEVICES} devices, four per record; "
            f"{count:,} notifications a round; h2load always sends one apns-id, which HPACK compresses to one byte")

    def rate(self, server, streams):
        count = self.arguments.notifications
        command = self.load_test(server.port, DEVICES, "--notifications", count, "--streams", streams)
        return server.sender("waybill-pusher", command, None, count)

    def peer(self, server, name, paths):
        count = PEER_NOTIFICATIONS[name]
        job = {
            "package": name, "port": server.port, "roots": server.roots, "authorization": BEARER,
            "key": f"{self.certificates}/provider-key.p8", "topic": TOPIC, "notifications": count,
            "devices": [path.rsplit("/", 1)[1] for path in paths],
        }
        return server.sender(name, [PEER_PYTHON, f"{HERE}/pusher/peer.py"], job, count)

    def measure_queue(self):
        with self.simulator(MANY_STREAMS, 0) as port:
            told = json.loads(output_of(self.load_test(port, QUEUED, "--notifications", QUEUED)))
        if told["verdicts"] != {"delivered": QUEUED}:
            raise Failure(f"not all of a long queue was delivered: {told['verdicts']}")
        self.report.figure("pusher.queued_100000_mb", told["peak_mb"], most=128)

    # --- against the simulator ---------------------------------------------------------------------------------------

    def measure_slow_answers(self):
        for connections, streams in SLOW:
            with self.simulator(streams, SLOW_MILLISECONDS) as port:
                possible = connections * streams * 1000 / SLOW_MILLISECONDS
                told = json.loads(output_of(self.load_test(
                    port, 4 * connections * streams, "--notifications", int(possible * SLOW_SECONDS),
                    "--streams", streams, "--connections", connections)))
                self.report.figure(f"pusher.slow_{connections}x{streams}", told["rate"] / possible, least=0.9)
                self.report.note(
                    f"answers after {SLOW_MILLISECONDS} ms, {connections} connections of {streams} streams: "
                    f"{told['rate']:.0f}/s of {possible:.0f}/s, {told['verdicts']}")

    @contextlib.contextmanager
    def simulator(self, streams, milliseconds):
        """Runs a separate simulator that answers after a delay; yields its port."""
        port = free_ports(1)[0]
        started, _ = start_with_address(self.folder, "apns", [
            "apns", "--certificates", self.certificates, "--port", str(port), "--delay-milliseconds",
            str(milliseconds), "--max-concurrent-streams", str(streams)])
        try:
            yield port
        finally:
            started.stop()

    # --- the whole stack ---------------------------------------------------------------------------------------------

    def measure_idle(self):
        time.sleep(3)
        self.report.figure("pusher.rss_mb", memory_mb(self.stack.pid("pusher")), most=64)

    def measure_stack(self):
        """Measures from a change's record to its notification, with every service in between."""
        count = CHANGES_A_SECOND * self.arguments.seconds
        devices = [Device(number, [f"{self.stack.type}/push-{number}"]) for number in range(1, count + 1)]
        tokens = {f"push-{device.number}": device.push_token for device in devices}
        publisher = Publisher(self.stack, {"linger.ms": 0})
        publisher.replace_with_example(tokens)
        registrar = Registrar(self.stack)
        registrar.register(devices)
        registrar.close()
        # A registration soon after a change also causes a notification.
        first_told(self.stack.env["APNS_ADMIN_URL"], tokens.values())
        tell(self.stack.env["APNS_ADMIN_URL"], "/deliveries", "DELETE")
        waits = push_waits(
            self.stack, tokens, CHANGES_A_SECOND,
            lambda order: publisher.send(order, "patched", {"statusDescription": f"changed at {time.time_ns()}"}),
            publisher.flush)
        self.report.figure("stack.push_p50_ms", percentile(waits, 0.5))
        self.report.figure("stack.push_p99_ms", percentile(waits, 0.99), most=50)
        self.report.note(
            f"{CHANGES_A_SECOND} changes/s for {self.arguments.seconds} s, from Kafka to the simulator: at most "
            f"{max(waits):.0f} ms")
