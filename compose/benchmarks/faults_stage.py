"""The stack of a faults run: two brands, one that shows APNs its certificate and one with provider tokens."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys

from stack import Failure, Publisher, Stack, edit_command, example

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The first is the stack's own.
TYPES = ("order.com.example.waybill", "order.com.example.waybill.token")
KEY, TEAM = "FAULTS1234", "TEAM123456"
# Short sessions, so that the pusher that is started again need not wait for itself; see chaos.py.
QUICK = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
# A short window, since each device is told every few seconds; without an hourly limit, which would be reached.
PUSHER = {"WAYBILL_PUSH_WINDOW_MILLISECONDS": "100", "WAYBILL_PUSH_HOURLY_LIMIT": "0"}


class Stage:
    def __init__(self, folder, attempts, pushers=1):
        self.folder, self.attempts, self.stack = folder, attempts, None
        self.pushers = ["pusher"] + [f"pusher-{number}" for number in range(2, pushers + 1)]

    def run(self, *words, seconds=1800):
        process = subprocess.Popen(
            [f"{ROOT}/compose/stack", *words, "--dir", self.folder], stdin=subprocess.DEVNULL, stdout=sys.stderr,
            start_new_session=True)
        try:
            if process.wait(seconds) != 0:
                raise Failure(f"compose/stack {' '.join(words)} failed")
        except BaseException:
            # SIGTERM, so that a stack that is coming up goes down again.
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()
            raise

    def up(self):
        """Brings up all but the pusher."""
        with open(f"{self.folder}/kafka.properties", "w") as file:
            file.write(QUICK)
        os.environ["WAYBILL_KAFKA_PROPERTIES"] = file.name
        self.make_brand()
        self.run("up", "--workers", str(len(self.pushers)))
        for pusher in self.pushers:
            self.run("stop", pusher)
        self.run("stop", "apns")
        edit_command(self.folder, "apns", "waybill-dev apns", (
            f"waybill-dev apns --topic {TYPES[1]} --provider-key {self.folder}/token/provider-key.p8 "
            f"--key-identifier {KEY} --team {TEAM}"))
        self.run("start", "apns")
        settings = PUSHER | {"WAYBILL_PUSH_ATTEMPTS": str(self.attempts)}
        assignments = [f"{name}={value}" for name, value in settings.items()]
        for pusher in self.pushers:
            edit_command(self.folder, pusher, "exec env", " ".join(["exec env", *assignments]))
        self.stack = Stack(ROOT, self.folder)

    def make_brand(self):
        """The brand that proves itself with provider tokens."""
        shown = subprocess.run(
            ["swift", "build", "-c", "release", "--show-bin-path"], cwd=ROOT, check=True, text=True,
            stdout=subprocess.PIPE)
        tool = f"{shown.stdout.strip()}/waybill-dev"
        own, brand = f"{self.folder}/token", f"{self.folder}/brands/{TYPES[1]}"
        common = f"{self.folder}/certificates"
        for command in (
            ["certificates", "--out", common, "--order-type", TYPES[0], "--team", TEAM],
            ["certificates", "--out", own, "--order-type", TYPES[1], "--team", TEAM, "--authority", common],
            ["brand", "--out", brand, "--order-type", TYPES[1], "--certificates", own],
        ):
            subprocess.run([tool, *command], check=True, stdout=subprocess.DEVNULL)
        shutil.copy(f"{own}/provider-key.p8", f"{brand}/provider-key.p8")
        with open(f"{brand}/brand.json") as file:
            content = json.load(file)
        content["push"] = {
            "authentication": "token", "key": "provider-key.p8", "keyIdentifier": KEY, "teamIdentifier": TEAM}
        with open(f"{brand}/brand.json", "w") as file:
            json.dump(content, file)

    def package(self, keys):
        """Publishes orders by `<type>/<id>`; they have packages when it returns, and the packager is gone."""
        document = example(ROOT)
        for kind in TYPES:
            stack = copy.copy(self.stack)
            stack.type = kind
            orders = [key.split("/")[1] for key in keys if key.startswith(f"{kind}/")]
            Publisher(stack).replace_all({order: document for order in orders})
        for pusher in self.pushers:
            self.run("stop", pusher.replace("pusher", "packager"))

    def down(self):
        self.run("down", seconds=600)
