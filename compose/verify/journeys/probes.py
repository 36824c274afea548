"""
`/livez` of each service: 200 while upstreams are away and during a restore; 503, with a name, while a thread stands still.
"""

import ctypes
import os
import time
from pathlib import Path

from metrics import Metrics
from pace import Repeater
from stack import derived_token, eventually, say
from world import Client, Device, Unanswered, World

SERVICES = ("packager", "gateway", "pusher")
# The upstream as the stack names it, as `waybill_upstream_up` names it, and a service that has it.
UPSTREAMS = (("kafka", "kafka", "packager"), ("apns", "apns", "pusher"), ("redis", "redis", "gateway"))
# Threads by the beginning of their names, and what `/livez` calls them. The operations endpoint has a loop of its own.
THREADS = (
    ("gateway", "NIO-SGLTN-", "event-loop-"), ("packager", "NIO-SGLTN-", "event-loop-"),
    ("packager", "kafka-consumer", "kafka-consumer"), ("pusher", "kafka-consumer", "kafka-consumer"),
)
# The most seconds until a thread that stands still is reported: 60 s without movement, and the probe's interval.
NOTICE = 75


class Stopped:
    """A thread of another process that does not run. Only root, and a parent where Linux lets it, may do this."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
    WALL = 0x40000000

    def __init__(self, thread):
        self.thread, self.libc = thread, ctypes.CDLL(None, use_errno=True)

    def trace(self, request):
        if self.libc.ptrace(ctypes.c_long(request), ctypes.c_long(self.thread), None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {self.thread}")

    def __enter__(self):
        self.trace(self.SEIZE)
        self.trace(self.INTERRUPT)
        os.waitpid(self.thread, self.WALL)
        return self

    def __exit__(self, *_):
        self.trace(self.DETACH)


class Probes(World):
    def travel(self):
        # It reads from the APNs simulator, which will be away.
        self.simulator.close()
        self.findings.phase = "orders"
        count = self.arguments.orders
        for number in range(count):
            self.publisher.send(f"probes-{number}", "replaced", self.document | {"orderNumber": f"{number}"})
        self.publisher.flush()
        eventually("packaging", lambda: self.metric("waybill_packages_built_total") >= count, 120 + count / 200)
        self.clients = [Client(self.stack.gateway_port) for _ in range(4)]
        with Repeater(self.ask, self.arguments.rate, len(self.clients)) as self.load:
            with Repeater(self.watch, len(SERVICES), len(SERVICES)):
                for upstream in UPSTREAMS:
                    self.lose(*upstream)
                self.restore(count)
        for thread in THREADS:
            self.stand_still(*thread)

    def ask(self, number):
        """Fetches an order, or registers a device and changes the order, so that each service has work."""
        key = f"{self.type}/probes-{number}"
        token = derived_token(self.secret, key)
        device = Device(number, key, token)
        try:
            self.findings.saw(f"{self.findings.phase}: answers {device.register(self.clients[number])}")
            device.fetch(self.clients[number])
        except Unanswered:
            self.findings.saw(f"{self.findings.phase}: no answer")
        if number == 0:
            self.publisher.send(f"probes-{number}", "patched", {"statusDescription": f"{time.time():.0f}"})

    def watch(self, number):
        status, text = self.probe(SERVICES[number], "livez")
        self.findings.saw(f"{self.findings.phase}: /livez of {SERVICES[number]} {status}")
        if status != 200:
            self.findings.add(f"/livez of {SERVICES[number]}: {status} {text.strip()}")

    def lose(self, name, upstream, service):
        """Stops an upstream for a while."""
        self.findings.phase = f"without {name}"
        up = lambda: Metrics.of(self.stack.env[f"OPERATIONS_{service.upper()}"]).total(
            "waybill_upstream_up", upstream=upstream)
        self.stack.stop(name)
        began = time.monotonic()
        eventually(f"{service} missing {name}", lambda: up() == 0, 60)
        say(f"{name} is away: {service} says so after {time.monotonic() - began:.1f} s")
        status, text = self.probe(service, "readyz")
        if status != 200 or upstream not in text:
            self.findings.add(f"/readyz of {service}: {status} {text.strip()}")
        self.load.wait(self.arguments.seconds)
        self.stack.start(name)
        eventually(f"{service} having {name} again", lambda: up() == 1, 60)
        # A Redis that was away may have to be restored, which is a reason of its own.
        for each in SERVICES:
            eventually(f"{each} ready", lambda: self.probe(each, "readyz")[0] == 200, 300)

    def restore(self, count):
        self.findings.phase = "restore"
        self.stack.redis.ask("FLUSHALL")
        began = time.monotonic()
        eventually("the restore", lambda: self.stack.redis.ask("EXISTS", "waybill:1:view:epoch") == 1, 300)
        seconds = time.monotonic() - began
        say(f"{count} orders are back after {seconds:.1f} s")
        if self.stack.redis.ask("DBSIZE") < count:
            self.findings.add(f"only {self.stack.redis.ask('DBSIZE')} keys in Redis")

    def names(self, service, part):
        status, text = self.probe(service, "livez")
        return status == 503 and part in text

    def stand_still(self, service, name, part):
        """Stops one thread of a service until `/livez` reports it."""
        self.findings.phase = f"{service}'s {part}"
        pid = self.stack.pid(service)
        thread = next(
            int(task.name) for task in sorted(Path(f"/proc/{pid}/task").iterdir())
            if (task / "comm").read_text().startswith(name))
        with Stopped(thread):
            began = time.monotonic()
            # What waits for the thread may be named a moment before it.
            eventually(f"503 of {service} that names {part}", lambda: self.names(service, part), NOTICE)
            say(f"{service}: after {time.monotonic() - began:.0f} s: {self.probe(service, 'livez')[1].strip()}")
        eventually(f"200 of {service}", lambda: self.probe(service, "livez")[0] == 200, 30)
        self.findings.saw("threads that stood still and were named")
