"""Well-behaved clients of both roles beside bodies that never end."""

import json
import os
import socket
from pathlib import Path

from client import Connection
from hostile.bench import Client, Flooding
from metrics import Metrics
from processes import Program, memory_mb
from stack import eventually, program
from subject import AUTHORIZATION, TOKEN
from topics import Publisher

QUIET_SECONDS, SECONDS, WARM_UP_SECONDS = 20, 30, 15
# The addresses, each in a network of its own, and the unfinished bodies of each: 1,000 of one, and as many as the
# limit of connections of the role and of files of this machine allow.
SHAPES = {"address": (1, 1000), "networks": (20, 400)}
ORIGIN = "https://shop.example.com"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Role:
    """A role under attack. most: the MB that its container has."""

    def __init__(self, name, port, operations, pid, path, headers, attacked, most):
        self.name, self.port, self.operations, self.pid = name, port, operations, pid
        self.path, self.headers, self.attacked, self.most = path, headers, attacked, most


class BodiesBench(Flooding):
    def measure(self):
        Publisher(self.stack).replace_with_example(["bench-1"], TOKEN)
        # As in the floods: they ask the embedded broker every 5 ms.
        self.stack.stop("packager", "pusher")
        failures = 0
        for role in self.gateway(), self.checkout():
            quiet, _ = self.fetch(role, QUIET_SECONDS)
            for shape, (addresses, count) in SHAPES.items():
                failures += self.attack(role, shape, addresses, count, quiet)
        return failures > 0

    def gateway(self):
        return Role("gateway", self.stack.gateway_port, self.stack.env["OPERATIONS_GATEWAY"], self.stack.pid("gateway"),
                    self.stack.path("bench-1"), AUTHORIZATION, "POST /v1/log", 384)

    def checkout(self):
        """Starts the other role, with a merchant."""
        folder, port, operations = f"{self.folder}/merchants/shop", free_port(), free_port()
        os.makedirs(folder)
        Path(f"{folder}/merchant.json").write_text(json.dumps({
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop", "origins": {ORIGIN: {}}}))
        names = ("KAFKA_BOOTSTRAP", "KAFKA_PROPERTIES", "REDIS_URL", "BRANDS", "TOKEN_SECRETS", "WEB_SERVICE_URL")
        started = Program([program("waybill-gateway"), "checkout"], f"{self.folder}/checkout.log", {
            f"WAYBILL_{name}": self.stack.env[name] for name in names} | {
            "WAYBILL_MERCHANTS": os.path.dirname(folder), "WAYBILL_CHECKOUT_LISTEN": f"127.0.0.1:{port}",
            "WAYBILL_OPERATIONS_LISTEN": f"127.0.0.1:{operations}"})
        self.ending.callback(started.process.kill)
        eventually("the checkout role listens", lambda: self.listens(port), refusals=(OSError,))
        return Role("checkout", port, f"http://127.0.0.1:{operations}", started.pid, "/applepay/metadata",
                    [("origin", ORIGIN)], "POST /applepay/payment", 512)

    def listens(self, port):
        Connection(port).close()
        return True

    def fetch(self, role, seconds):
        client, samples = Client(role.port, [role.path], seconds, role.headers), []
        client.start()
        while client.is_alive():
            client.join(0.25)
            samples.append(memory_mb(role.pid))
        return client, samples

    def attack(self, role, shape, addresses, count, quiet):
        method, path = role.attacked.split()
        head = f"{method} {path} HTTP/1.1\r\nhost: a\r\norigin: {ORIGIN}\r\ncontent-type: application/json\r\n"
        self.start_flood(role.port, "bodies", str(addresses), str(count), head)
        self.wait(WARM_UP_SECONDS)
        client, samples = self.fetch(role, SECONDS)
        counts = self.stop_flood()["bodies"]
        name = f"bodies.{role.name}_{shape}"
        # One and a half times, or 5 ms more, whichever is more.
        p99, allowed = client.percentile(0.99), max(1.5 * quiet.percentile(0.99), quiet.percentile(0.99) + 5)
        self.report.figure(f"{name}_p99_ms", p99, most=allowed)
        self.report.figure(f"{name}_mb", max(samples), most=role.most)
        series = [(labels, value) for series, labels, value in Metrics.of(role.operations).series
                  if series in ("waybill_requests_gave_way_total", "waybill_request_bytes")]
        self.report.note(
            f"{role.name}, {count} bodies of each of {addresses} addresses: p99 {quiet.percentile(0.99):.2f} ms when quiet, "
            f"{len(client.failures)} failed {client.failures[:3]}, newcomers {client.admitted} of "
            f"{client.admitted + client.refused}; {counts['megabytes']:.0f} MB sent, {counts['open']} open, "
            f"{counts['closed']:,} closed, answers {counts['answers']}; "
            + ", ".join(" ".join([*labels.values(), f"{value:.0f}"]) for labels, value in series))
        return len(client.failures)
