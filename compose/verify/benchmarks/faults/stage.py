"""
The stack of a faults run, with two brands: one authenticates with its certificate, one with provider tokens; and the
changes of their orders.
"""

import copy
import json
import shutil
from pathlib import Path

from devices import now
from stack import run_tool
from subject import QUICK_SESSIONS
from topics import Producer, Publisher, key_of

# The first is the stack's own.
TYPES = ("order.com.example.waybill", "order.com.example.waybill.token")
KEY, TEAM = "FAULTS1234", "TEAM123456"
# A short window, since each device is notified every few seconds; no hourly limit, since it would be reached.
PUSHER = {"WAYBILL_PUSH_WINDOW_MILLISECONDS": "100", "WAYBILL_PUSH_HOURLY_LIMIT": "0"}


class Stage:
    def __init__(self, stack, attempts, pushers=1):
        self.stack, self.attempts = stack, attempts
        self.pushers = ["pusher"] + [f"pusher-{number}" for number in range(2, pushers + 1)]

    def up(self):
        """Brings the stack up, with the pushers stopped."""
        folder = self.stack.folder
        self.make_brand(folder)
        # Short sessions, so that a pusher that is started again does not wait long for its former session to expire.
        self.stack.up("--workers", str(len(self.pushers)), kafka_properties=QUICK_SESSIONS)
        self.stack.stop(*self.pushers, "apns")
        self.stack.edit_command("apns", "waybill-dev apns", (
            f"waybill-dev apns --topic {TYPES[1]} --provider-key {folder}/token/provider-key.p8 "
            f"--key-identifier {KEY} --team {TEAM}"))
        self.stack.start("apns")
        settings = PUSHER | {"WAYBILL_PUSH_ATTEMPTS": str(self.attempts)}
        assignments = [f"{name}={value}" for name, value in settings.items()]
        for pusher in self.pushers:
            self.stack.edit_command(pusher, "exec env", " ".join(["exec env", *assignments]))

    @staticmethod
    def make_brand(folder):
        """Makes the brand that authenticates with provider tokens, and the certificates of both."""
        own, brand, common = f"{folder}/token", f"{folder}/brands/{TYPES[1]}", f"{folder}/certificates"
        run_tool("certificates", "--out", common, "--order-type", TYPES[0], "--team", TEAM)
        run_tool("certificates", "--out", own, "--order-type", TYPES[1], "--team", TEAM, "--authority", common)
        run_tool("brand", "--out", brand, "--order-type", TYPES[1], "--certificates", own)
        shutil.copy(f"{own}/provider-key.p8", f"{brand}/provider-key.p8")
        file = Path(f"{brand}/brand.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"push": {
            "authentication": "token", "key": "provider-key.p8", "keyIdentifier": KEY, "teamIdentifier": TEAM}}))

    def package(self, keys):
        """Publishes orders, `<type>/<id>`, waits until each has a package, and stops the packagers."""
        for kind in TYPES:
            stack = copy.copy(self.stack)
            stack.type = kind
            Publisher(stack).replace_with_example(
                [key.split("/")[1] for key in keys if key.startswith(f"{kind}/")])
        self.stack.stop(*(pusher.replace("pusher", "packager") for pusher in self.pushers))


class Changes(Producer):
    """Writes records to `waybill.orders`, as a packager does for a new version of an order, but without its content."""

    def __init__(self, stack):
        super().__init__(stack.env["KAFKA_BOOTSTRAP"])
        # places: order -> (partition, offset) of its last record.
        self.count, self.places = 0, {}

    def change(self, order, devices):
        moment = now()
        for device in devices:
            device.events.append((moment, "change"))
        self.count += 1
        self.put("waybill.orders", order, "{}")

    def delivered(self, error, message):
        super().delivered(error, message)
        if not error:
            self.places[key_of(message)] = (message.partition(), message.offset())
