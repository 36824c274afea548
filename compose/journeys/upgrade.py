"""
Services of an earlier release are replaced by those of this release, and back again.

Two packagers, two pushers and two gateways change one after the other while orders are published, and devices fetch,
list, register and remove registrations at either gateway. Between the steps the load pauses, each order changes once
more, and its device must be notified, list the order and fetch that change.
"""

import os
import random
import re
import threading

from pace import Repeater
from processes import free_ports
from stack import Failure, eventually, program, say
from tracked import TrackedOrders
from world import Client, Unanswered

ORDERS = 200
WORKERS = 6


class Upgrade(TrackedOrders):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack, "upgrade", ORDERS)
        self.lock, self.gateways = threading.Lock(), {"gateway": self.stack.gateway_port}
        self.findings.phase = "the earlier release"

    def travel(self):
        self.begin()
        self.workers = [{name: Client(port) for name, port in self.gateways.items()} for _ in range(WORKERS)]
        for device in self.devices:
            self.change(device)
        self.publisher.flush()
        self.await_packages()
        for device in self.devices:
            self.register(device)
        self.live()
        old, new = self.arguments.old, os.path.dirname(program("waybill-dev"))
        for direction, folder in (("forth", new), ("back", old)):
            for service in ("packager-2", "packager", "gateway-2", "gateway", "pusher-2", "pusher"):
                self.findings.phase = f"{direction}, {service} changed"
                say(self.findings.phase)
                self.live(lambda: self.become(service, folder))

    def begin(self):
        """Replaces all services by two each of the earlier release, with an empty Redis."""
        names = ["gateway", "packager", "pusher"]
        self.stack.stop(*names)
        self.stack.redis.ask("FLUSHALL")
        for name in names:
            self.edit(name, self.arguments.old)
            self.stack.start(name)
        for name in names:
            command = self.stack.command(name)
            if name == "gateway":
                self.gateways["gateway-2"] = free_ports(1)[0]
                command = re.sub(
                    r"WAYBILL_LISTEN=\S+", f"WAYBILL_LISTEN=127.0.0.1:{self.gateways['gateway-2']}", command)
            self.add_service(f"{name}-2", command)

    def edit(self, service, folder):
        """Sets the folder of a service's program."""
        command = self.stack.command(service)
        self.stack.write_command(
            service, re.sub(r"\S+/(waybill-\w+)$", lambda found: f"{folder}/{found[1]}", command))

    def become(self, service, folder):
        self.stack.stop(service)
        self.edit(service, folder)
        self.stack.start(service)

    # --- the load ----------------------------------------------------------------------------------------------------

    def live(self, deed=lambda: None):
        """Runs the load, calls `deed` during it, then compares."""
        with Repeater(self.step, self.arguments.rate, WORKERS) as load:
            load.wait(self.arguments.phase / 4)
            deed()
            load.wait(self.arguments.phase)
        self.compare()

    def change(self, device):
        with self.lock:
            number = {"orderNumber": str(device.published)}
            if device.published == 0:
                self.publisher.send(device.identifier, "replaced", self.document | number)
            else:
                self.publisher.send(device.identifier, "patched", number)
            device.published += 1

    def step(self, number):
        device = random.choice(self.devices)
        with device.lock:
            gateway = random.choice(list(self.gateways))
            client, deed = self.workers[number][gateway], random.randrange(12)
            try:
                if deed < 4:
                    self.change(device)
                elif deed < 8:
                    self.fetch(device, client, gateway)
                elif deed < 9:
                    self.insist(lambda: device.register(client), device, "registers again", 200)
                elif deed < 10:
                    self.insist(lambda: device.unregister(client), device, "removes its registration", 200)
                    other = self.workers[number][random.choice(list(self.gateways))]
                    self.insist(lambda: device.register(other), device, "registers", 201)
                else:
                    self.list(device, client, gateway)
            except Unanswered:
                self.findings.saw(f"requests that {gateway} did not answer")

    def insist(self, action, device, what, right):
        """Repeats a request until the answer is not 503, as Wallet does."""
        def answer():
            status = action()
            return status != 503 and status

        try:
            status = eventually("an answer", answer, 60, 0.2, Unanswered)
        except Failure:
            return self.findings.add(f"the device of {device.key} {what} and is not answered for a minute")
        if status != right:
            self.findings.add(f"the device of {device.key} {what} and is answered {status}")
        return self.findings.saw(f"{what}: {status}")

    def list(self, device, client, gateway):
        listed = device.list(client)
        self.findings.saw("lists: 503" if listed is None else "lists")
        if listed is not None and listed != [device.identifier]:
            self.findings.saw(f"{self.findings.phase}: lists without an order at {gateway}")

    # --- between the steps -------------------------------------------------------------------------------------------

    def compare(self):
        """Changes each order: its device must be notified, list the order, and fetch the change, at both gateways."""
        self.simulator.settle()
        first = len(self.simulator.deliveries)
        for device in self.devices:
            self.change(device)
        self.publisher.flush()
        for device in self.untold(self.devices, first, 20):
            self.findings.add(f"the device of {device.key} was not notified")
        for name, port in self.gateways.items():
            client = Client(port)
            unlisted = stale = 0
            for device in self.devices:
                listed = device.list(client)
                unlisted += listed != [device.identifier]
                status = device.fetch(client)
                stale += status != 200 or device.order["orderNumber"] != str(device.published - 1)
            self.findings.saw("devices compared", len(self.devices))
            if unlisted:
                self.findings.add(f"{unlisted} of {len(self.devices)} devices do not list their order at {name}")
            if stale:
                self.findings.add(f"{stale} of {len(self.devices)} orders lack their last change at {name}")
            client.close()
