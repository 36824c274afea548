"""
The token secret changes under load.

Customers pay at two checkouts. A checkout either publishes the order with its token, or only mints the token and the
shop publishes the order without a token. A device fetches its order as soon as it is paid for, then registers, removes
its registration, and keeps fetching with the token that it has.
"""

import collections
import hashlib
import json
import os
import random
import secrets
import threading
import time

from operations import retoken, write_secrets
from pace import Repeater
from processes import free_ports
from stack import Failure, derived_token, eventually, say
from world import Client, Device, World

KEY = "sk_test_rotation"
CHECKOUTS = ("ahead", "behind")
# Seconds within which a service loads a changed file; it checks each second, and loads a file that it saw twice alike.
RELOAD = 5
# The most seconds from an order's publication to its package.
PACKAGE = 5
# One of this many steps is a payment.
PAYMENTS = 4


class Rotation(World):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.minute, self.files = arguments.minute, {name: f"{stack.folder}/secrets-{name}" for name in CHECKOUTS}
        self.old, self.new = self.secret, secrets.token_hex(32)
        self.lock, self.count = threading.Lock(), 0
        # Devices that have not fetched their order yet, as (time of the next attempt, device); and those that have.
        self.young, self.devices = collections.deque(), []
        # The time at which gateway and packager had the new secret.
        self.known = None
        # True while they receive it as their first line: until both have it, one refuses what the other mints.
        self.is_arriving = False

    def travel(self):
        ports = {"gateway": self.stack.gateway_port} | self.start_checkouts()
        # The connections of each thread.
        self.workers = [{name: Client(port) for name, port in ports.items()} for _ in range(8)]
        with Repeater(self.step, self.arguments.rate, len(self.workers)) as load:
            self.rotate(load)
            self.retoken(load)
            self.withdraw(load)
        self.look_back()

    def start_checkouts(self):
        merchants = f"{self.stack.folder}/merchants/shop"
        os.makedirs(merchants, exist_ok=True)
        with open(f"{merchants}/merchant.json", "w") as file:
            json.dump({
                "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop",
                "orderTypeIdentifiers": [self.type], "capabilities": ["order_tracking"], "origins": {},
                "keys": [{
                    "name": "shop", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "scopes": ["details", "orders"],
                }],
            }, file)
        ports = {}
        for name, path in self.files.items():
            write_secrets(path, [self.old])
            ports[name] = free_ports(1)[0]
            command = self.stack.command("gateway").replace(self.stack.env["TOKEN_SECRETS"], path).replace("exec env", (
                f"exec env WAYBILL_CHECKOUT_LISTEN=127.0.0.1:{ports[name]} "
                f"WAYBILL_MERCHANTS={self.stack.folder}/merchants"), 1)
            self.add_service(f"checkout-{name}", f"{command} checkout")
        return ports

    def change(self, path, lines, services):
        """Changes a file of secrets, and returns when the services have loaded it."""
        def loads():
            return [self.log(service).count("token secrets reloaded") for service in services]

        before = loads()
        write_secrets(path, lines)
        eventually(
            f"{' and '.join(services)} loading other secrets",
            lambda: all(now > then for now, then in zip(loads(), before)), RELOAD)

    # --- the story ---------------------------------------------------------------------------------------------------

    def rotate(self, load):
        shared, services = self.stack.env["TOKEN_SECRETS"], ("gateway", "packager")
        load.wait(self.minute / 2)
        if self.arguments.second_line:
            say("the services have the new secret as their second line")
            self.change(shared, [self.old, self.new], services)
            self.known = time.monotonic()
        say("a checkout mints with the new secret")
        self.change(self.files["ahead"], [self.new, self.old], ["checkout-ahead"])
        load.wait(self.minute)
        say("the services have the new secret")
        self.is_arriving = self.known is None
        self.change(shared, [self.new, self.old], services)
        self.is_arriving = False
        self.known = self.known or time.monotonic()
        load.wait(self.minute)
        say("the other checkout mints with the new secret")
        self.change(self.files["behind"], [self.new, self.old], ["checkout-behind"])
        load.wait(self.minute / 2)

    def retoken(self, load):
        say("orders get tokens of the new secret")
        with self.lock:
            # Devices that have not opened their order yet will get its newest version.
            old = [device for device in self.devices if device.order["authenticationToken"] != self.minted(device)]
        before, first = self.simulator.accepted, len(self.simulator.deliveries)
        retoken(self.stack)
        self.findings.saw("orders with a token of the old secret", len(old))
        for device in self.untold(old, first, 30):
            self.findings.add(f"{device.key} has a new token and its device was not notified")
        self.findings.saw("notifications after retoken", self.simulator.accepted - before)
        for device in old:
            with device.lock:
                self.fetch(device, self.client)
                if device.order["authenticationToken"] != self.minted(device):
                    self.findings.add(f"{device.key} was given no token of the new secret")
                device.token = device.order["authenticationToken"]
        load.wait(self.minute / 2)

    def withdraw(self, load):
        # Orders with a token of the old secret are fetched again; from here on a device shows its package's token.
        with self.lock:
            devices = list(self.devices)
        client = Client(self.stack.gateway_port)
        for device in devices:
            with device.lock:
                if device.order["authenticationToken"] != self.minted(device):
                    self.fetch(device, client)
                device.token = device.order["authenticationToken"]
        client.close()
        say("the old secret is withdrawn")
        for path, services in (
            (self.stack.env["TOKEN_SECRETS"], ["gateway", "packager"]), (self.files["ahead"], ["checkout-ahead"]),
            (self.files["behind"], ["checkout-behind"]),
        ):
            self.change(path, [self.new], services)
        load.wait(self.minute / 2)

    def look_back(self):
        """Requires, at the end, that each device opens its order, and that no old token does."""
        deadline = time.monotonic() + PACKAGE
        while self.young and time.monotonic() < deadline:
            self.open(self.young.popleft()[1], self.workers[0])
        for _, device in self.young:
            self.findings.add(f"{device.key} ({device.kind}) never opened")
        for device in self.devices:
            if self.fetch(device, self.client) == 200:
                self.findings.saw("orders that open with the token of their device at the end")
        # Fewer wrong tokens than an address may show.
        for device in self.devices[:40]:
            device.token = derived_token(self.old, device.key)
            if device.fetch(self.client) not in (401, 429):
                self.findings.add(f"{device.key} opens with a token of the withdrawn secret")

    def minted(self, device):
        return derived_token(self.new, device.key)

    # --- the load ----------------------------------------------------------------------------------------------------

    def step(self, number):
        worker = self.workers[number]
        young = None
        with self.lock:
            if self.young and self.young[0][0] <= time.monotonic():
                young = self.young.popleft()[1]
        if young:
            self.open(young, worker)
        elif not self.devices or random.randrange(PAYMENTS) == 0:
            self.pay(worker)
        else:
            self.live(random.choice(self.devices), worker)

    def pay(self, worker):
        with self.lock:
            self.count += 1
            number = self.count
        checkout, is_published = random.choice(CHECKOUTS), random.random() < 0.5
        order = f"rotation-{number}"
        document = self.document | {"orderNumber": str(number)}
        body = {"orderTypeIdentifier": self.type, "orderIdentifier": order}
        if is_published:
            body["order"] = document
        answer = worker[checkout].ask(
            "POST", "/v1/checkout/order-details", [("authorization", f"Bearer {KEY}")], json.dumps(body))
        if answer.status != 200:
            raise Failure(f"order details: status {answer.status} {answer.body[:300]}")
        if not is_published:
            with self.lock:
                self.publisher.send(order, "replaced", document)
        device = Device(number, f"{self.type}/{order}", json.loads(answer.body)["orderDetails"]["authenticationToken"])
        device.is_published, device.kind = is_published, f"{checkout}, {'published' if is_published else 'minted only'}"
        self.findings.saw(f"paid at the checkout {device.kind}")
        self.open(device, worker)

    def open(self, device, worker):
        """Makes one of a device's first fetches; queues the next if the order is not served yet."""
        # The gateway does not have the secret of the token yet, or not that of a packager which has reloaded before it.
        is_strange = self.known is None and device.token == self.minted(device) or self.is_arriving
        status = device.fetch(worker["gateway"])
        is_strange = is_strange or self.is_arriving
        now = time.monotonic()
        if status == 200:
            self.findings.saw(f"opened: {device.kind}")
            if device.register(worker["gateway"]) != 201:
                self.findings.add(f"{device.key} ({device.kind}) opened, and its device may not register")
            with self.lock:
                self.devices.append(device)
            return
        self.findings.saw(f"first fetches answered {status}" + (", the secret is not known yet" if is_strange else ""))
        if device.is_published and now - device.born > PACKAGE:
            self.findings.add(f"{device.key} ({device.kind}) has no package after {now - device.born:.1f} s")
        elif status in (401, 429) and not is_strange and self.is_known_before(device, now):
            self.findings.add(f"{device.key} ({device.kind}) is answered {status} with a correct token")
        with self.lock:
            self.young.append((now + 1, device))

    def is_known_before(self, device, now):
        """Returns false if the services have only just received the secret of a device's token."""
        return device.token == derived_token(self.old, device.key) or now - self.known > PACKAGE

    def live(self, device, worker):
        with device.lock:
            deed = random.randrange(10)
            if deed < 6:
                self.fetch(device, worker["gateway"], is_conditional=deed < 3)
            elif deed < 7:
                with self.lock:
                    self.publisher.send(
                        device.identifier, "patched", {"statusDescription": f"note {time.time_ns()}"})
            elif deed < 8:
                self.expect(device, "registers again", device.register(worker["gateway"]), 200)
            elif deed < 9:
                self.expect(device, "removes its registration", device.unregister(worker["gateway"]), 200)
                self.expect(device, "registers", device.register(worker["gateway"]), 201)
            elif device.list(worker["gateway"]) != [device.identifier]:
                self.findings.add(f"the device of {device.key} does not list it")

    def fetch(self, device, client, is_conditional=False):
        return self.expect(device, "fetches", device.fetch(client, is_conditional), 200, 304)

    def expect(self, device, what, status, *right):
        self.findings.saw(f"{what}: {status}")
        if status not in right:
            self.findings.add(f"the device of {device.key} ({device.kind}) {what} and is answered {status}")
        return status
