"""
Each alert of compose/operate is provoked on a stack that a Prometheus watches: it fires, and is silent again after
the cure. Before that, none fires under ordinary load. Then each query of the dashboards has given a series.
"""

import json
import os
import random
import time

from alert_scenes import CARRIER, SCENES, UNPROVOKED, Scenes
from pace import Repeater
from prometheus import Prometheus, dashboard_queries
from quick_rules import SPEED
from stack import Failure, derived_token, eventually, say
from topics import Publisher
from world import Client, Device, Unanswered

DEVICES = 250
# Services by the job of Prometheus under which they are read.
JOBS = {
    "waybill-packager": ("packager", "packager-2"), "waybill-pusher": ("pusher", "pusher-2"),
    "waybill-gateway": ("gateway", "gateway-tls"), "waybill-checkout": ("checkout",),
    "waybill-ingest": ("ingest",),
}
# Seconds until an alert fires, and until all are silent again.
PATIENCE = 120


class Alerts(Scenes):
    WORKERS = 2

    def travel(self):
        # It keeps up with APNs, which will be away.
        self.simulator.close()
        self.began = time.time()
        names = list(SCENES) if self.arguments.scenes == "all" else self.arguments.scenes.split(",")
        if unknown := set(names) - set(SCENES):
            raise Failure(f"--scenes: {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
        self.start_checkout()
        self.start_tls()
        self.start_ingest()
        self.enrol()
        targets = {job: [f"127.0.0.1:{self.operations_port(service)}" for service in services]
                   for job, services in JOBS.items()}
        self.prometheus = Prometheus(os.path.abspath(f"{self.arguments.dir}/prometheus"), targets)
        try:
            with Repeater(self.work, self.arguments.rate, len(self.steps)):
                self.rest()
                self.prometheus.load(quick=True)
                say(f"from here on windows, waits and counted limits of the rules are a {SPEED}th")
                for name in names:
                    self.provoke(name)
            if self.arguments.scenes == "all":
                self.review()
        finally:
            self.prometheus.stop()
        self.findings.saw("records of the load that Kafka did not take", len(self.shop.failed))

    # --- ordinary load -----------------------------------------------------------------------------------------------

    def enrol(self):
        self.findings.phase = "enrolment"
        self.devices = [Device(number, f"{self.type}/alerts-{number}") for number in range(DEVICES)]
        self.publisher.replace_all({
            device.identifier: self.document | {"orderNumber": device.identifier} for device in self.devices})
        for device in self.devices:
            device.token = derived_token(self.secret, device.key)
            if device.register(self.client) not in (200, 201):
                self.findings.add(f"{device.key} is not registered")
        # Its records are lost while Kafka is away for long; a scene's publisher must get all of its own through.
        self.shop = Publisher(self.stack, {"partitioner": "murmur2_random"})
        self.steps = [self.change, self.fetch, self.register, self.pay, self.scan]
        self.clients = [[Client(self.stack.gateway_port), Client(self.checkout_port)] for _ in self.steps]

    def work(self, number):
        """Does what customers and shops do all day; what upstreams that are away make of it is of no interest here."""
        try:
            device = random.choice(self.devices)
            with device.lock:
                self.steps[number](device, *self.clients[number])
        except Unanswered:
            self.findings.saw("requests without an answer")

    def change(self, device, *_):
        self.shop.send(device.identifier, "patched", {"statusDescription": f"{time.time_ns()}"})

    def fetch(self, device, gateway, _):
        self.findings.saw(f"fetches: {device.fetch(gateway)}")

    def register(self, device, gateway, _):
        self.findings.saw(f"registrations: {device.register(gateway)}")

    def pay(self, device, _, checkout):
        self.findings.saw(f"confirmations: {self.confirm(checkout, time.time_ns())}")

    def scan(self, device, *_):
        self.shop.put(CARRIER, device.identifier, json.dumps({"order": device.identifier, "at": f"{time.time_ns()}"}))

    def rest(self):
        """Requires that no alert fires under ordinary load, with the rules as they are."""
        self.findings.phase = "ordinary load"
        fired, pending, end = {}, set(), time.monotonic() + self.arguments.minutes * 60
        while time.monotonic() < end:
            for name, (state, summary) in self.prometheus.active().items():
                if state == "firing" and name not in fired:
                    self.findings.add(f"{name} fires: {summary}")
                    fired[name] = summary
                elif state == "pending":
                    pending.add(name)
            time.sleep(1)
        say(f"{self.arguments.minutes} minutes of ordinary load: {len(fired)} of {len(self.prometheus.alerts)} alerts "
            f"fired, {', '.join(sorted(pending)) or 'none'} began to wait")

    # --- provocations ------------------------------------------------------------------------------------------------

    def provoke(self, name):
        self.findings.phase = name
        self.await_silence("the scene before")
        began, scene, also = time.monotonic(), SCENES[name](self), set()
        for expected in scene:
            for alert in expected:
                self.await_firing(alert, also)
            also -= set(expected)
        self.await_silence(name)
        say(f"{name}: silent again after {time.monotonic() - began:.0f} s"
            f"{'; also: ' + ', '.join(sorted(also)) if also else ''}")

    def await_firing(self, alert, also):
        began = time.monotonic()

        def fires():
            firing = self.prometheus.firing()
            also.update(firing)
            return firing.get(alert)

        try:
            summary = eventually(alert, fires, PATIENCE, 0.5)
        except Failure:
            self.findings.add(f"{alert} does not fire within {PATIENCE} s")
            return
        say(f"{self.findings.phase}: {alert} fires after {time.monotonic() - began:.0f} s: {summary}")
        self.findings.saw("alerts that fired")

    def await_silence(self, what):
        try:
            eventually(what, lambda: not self.prometheus.active(), PATIENCE, 0.5)
        except Failure:
            self.findings.add(f"after {what}: {self.prometheus.active()}")

    def review(self):
        """Requires that each query of a dashboard gave a series, and that no alert is forgotten."""
        self.findings.phase = "dashboards"
        for dashboard, query in dashboard_queries("10s"):
            has_series = self.prometheus.has_series(query, self.began, time.time())
            self.findings.saw("queries that gave a series", has_series)
            if not has_series:
                self.findings.add(f"{dashboard}: no series: {query}")
        for alert, reason in UNPROVOKED.items():
            say(f"{alert} is not provoked: {reason}")
