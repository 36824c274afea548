"""
Services of an earlier release become those of this one, and back again; started by compose/journey upgrade.

Two packagers, two pushers and two gateways change one after the other while orders are published, and devices fetch,
list, register and remove registrations at either gateway. Between the steps the load pauses, each order changes once
more, and its device must be told, list the order and fetch that change.
"""

import random
import re
import threading
import time

from faults_world import Simulator
from peers import free_ports
from stack import Failure, derived_token
from subject import run
from world import Client, Device, Load, Unanswered, World, say

ORDERS = 200
WORKERS = 6


class Upgrade(World):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.devices = [Device(number, f"{self.stack.type}/upgrade-{number}") for number in range(ORDERS)]
        for device in self.devices:
            device.token, device.changes = derived_token(self.secret, device.key), 0
        self.lock, self.phase = threading.Lock(), "the earlier release"
        self.gateways = {"gateway": self.stack.gateway_port}

    def run(self):
        self.begin()
        simulator = Simulator(self.stack.env["APNS_ADMIN_URL"])
        first = Client(self.stack.gateway_port)
        self.workers = [{name: Client(port) for name, port in self.gateways.items()} for _ in range(WORKERS)]
        for device in self.devices:
            self.change(device)
        self.publisher.flush()
        self.eventually(
            "packages of all orders",
            lambda: all(device.order or device.fetch(first) == 200 for device in self.devices))
        for device in self.devices:
            if device.register(first) != 201:
                raise Failure(f"{device.key}: registering is refused")
        self.live(simulator)
        old, new = self.arguments.old, self.arguments.bin
        for direction, program in (("forth", new), ("back", old)):
            for services in (["packager-2"], ["packager"], ["gateway-2"], ["gateway"], ["pusher-2"], ["pusher"]):
                self.phase = f"{direction}, {services[0]} changed"
                say(self.phase)
                self.live(simulator, lambda: self.become(services, program))
        simulator.close()
        return self.findings.close()

    def begin(self):
        """All services are those of the earlier release, and so is what Redis and Kafka have."""
        names = ["gateway", "packager", "pusher"]
        for name in names:
            self.stack.stop(name)
        self.stack.redis.ask("FLUSHALL")
        for name in names:
            self.edit(name, self.arguments.old)
            self.stack.start(name)
        for name in names:
            command = self.command(name)
            if name == "gateway":
                self.gateways["gateway-2"] = free_ports(1)[0]
                command = re.sub(
                    r"WAYBILL_LISTEN=\S+", f"WAYBILL_LISTEN=127.0.0.1:{self.gateways['gateway-2']}", command)
            self.add_service(f"{name}-2", command)

    def edit(self, service, folder):
        """Which program starts as a service."""
        command = re.sub(r"\S+/(waybill-\w+)$", lambda found: f"{folder}/{found[1]}", self.command(service))
        with open(f"{self.stack.folder}/run/{service}.command", "w") as file:
            file.write(f"{command}\n")

    def become(self, services, folder):
        for service in services:
            self.stack.stop(service)
            self.edit(service, folder)
            self.stack.start(service)

    # --- the load ----------------------------------------------------------------------------------------------------

    def live(self, simulator, deed=lambda: None):
        """Load, in which something is done; then all must be right."""
        load = Load(self.step, self.arguments.rate, WORKERS)
        try:
            load.wait(self.arguments.phase / 4)
            deed()
            load.wait(self.arguments.phase)
        finally:
            load.is_over.set()
        load.stop()
        self.compare(simulator)

    def change(self, device):
        with self.lock:
            order = device.key.split("/")[1]
            if device.changes == 0:
                self.publisher.send(order, "replaced", self.document | {"orderNumber": "0"})
            else:
                self.publisher.send(order, "patched", {"orderNumber": str(device.changes)})
            device.changes += 1

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
        """As Wallet does: until there is an answer that is no 503."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                status = action()
            except Unanswered:
                status = None
            if status not in (None, 503):
                if status != right:
                    self.differ(f"the device of {device.key} {what} and is answered {status}")
                self.findings.saw(f"{what}: {status}")
                return
            time.sleep(0.2)
        self.differ(f"the device of {device.key} {what} and is not answered for a minute")

    def differ(self, text):
        self.findings.add(f"{self.phase}: {text}")

    def fetch(self, device, client, gateway):
        before = device.order["updatedAt"]
        status = device.fetch(client, is_conditional=random.random() < 0.5)
        self.findings.saw(f"fetches: {status}")
        if status not in (200, 304, 503):
            self.differ(f"the device of {device.key} fetches from {gateway} and is answered {status}")
        elif device.order["updatedAt"] < before:
            self.differ(f"{device.key} went back from {before} to {device.order['updatedAt']} at {gateway}")

    def list(self, device, client, gateway):
        listed = device.list(client)
        self.findings.saw("lists: 503" if listed is None else "lists")
        if listed is not None and listed != [device.key.split("/")[1]]:
            self.findings.saw(f"{self.phase}: lists without an order at {gateway}")

    # --- between the steps -------------------------------------------------------------------------------------------

    def compare(self, simulator):
        """Each order changes: its device is told, lists the order, and fetches that change, from either gateway."""
        last = -1
        while last != simulator.accepted:
            last = simulator.accepted
            time.sleep(1)
        told = len(simulator.deliveries)
        for device in self.devices:
            self.change(device)
        self.publisher.flush()
        untold = {device.push_token: device for device in self.devices}

        def is_told():
            for delivery in simulator.deliveries[told:]:
                untold.pop(delivery[0], None)
            return not untold

        try:
            self.eventually("telling", is_told, 20)
        except Failure:
            for device in untold.values():
                self.differ(f"the device of {device.key} was not told")
        for name, port in self.gateways.items():
            client = Client(port)
            unlisted = stale = 0
            for device in self.devices:
                listed = device.list(client)
                unlisted += listed != [device.key.split("/")[1]]
                status = device.fetch(client)
                stale += status != 200 or device.order["orderNumber"] != str(device.changes - 1)
            self.findings.saw("devices compared", len(self.devices))
            if unlisted:
                self.differ(f"{unlisted} of {len(self.devices)} devices do not list their order at {name}")
            if stale:
                self.differ(f"{stale} of {len(self.devices)} orders are not served as changed last at {name}")
            client.close()


if __name__ == "__main__":
    run(Upgrade, bin=str, old=str, phase=6, rate=60)
