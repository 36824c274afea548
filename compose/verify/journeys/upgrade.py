"""
Services are replaced one after the other by those of the release before, and by the present ones again, under load.

The earlier programs write records and keys first, so that the present ones read their data, and the other way round.
Each time that packagers are replaced, Redis is emptied: they build it again from what the other release wrote.
"""

import os

from pace import Repeater
from stack import SERVICES, Failure, eventually, program, say
from topics import CHANGES, Offsets
from tracked import TrackedOrders
from world import Client


class Upgrade(TrackedOrders):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack, "upgrade", arguments.orders)
        self.present = os.path.dirname(program("waybill-packager"))
        self.earlier = os.path.abspath(arguments.earlier)
        for service in SERVICES:
            if not os.access(f"{self.earlier}/waybill-{service}", os.X_OK):
                raise Failure(f"--earlier {self.earlier}: there is no program waybill-{service}")

    def travel(self):
        for service in SERVICES:
            self.replace(service, self.present, self.earlier)
        self.publish(self.devices, 1)
        self.await_packages()
        for device in self.devices:
            self.register(device)
        self.fetches = [Client(self.stack.gateway_port) for _ in range(4)]
        with Repeater(self.fetch_some, 100, 4):
            for word, old, new in (("present", self.earlier, self.present), ("earlier", self.present, self.earlier),
                                   ("present", self.earlier, self.present)):
                # Shared/Operations/README.md#upgrading
                for service in ("packager", "gateway", "pusher"):
                    self.publish(self.devices, 1)
                    self.replace(service, old, new)
                    say(f"{service}: the {word} release")
                    if service == "packager":
                        self.lose_redis()
                    self.publish(self.devices, 1)
                self.findings.saw(f"services replaced by the {word} release", len(SERVICES))
        self.await_changes(self.stack.env["KAFKA_BOOTSTRAP"], [CHANGES])
        self.await_rest()
        self.judge()

    def replace(self, service, old, new):
        self.stack.edit_command(service, f"{old}/waybill-", f"{new}/waybill-")
        self.stack.restart(service)
        if service == "gateway":
            # Its connection has ended.
            self.client.close()

    def lose_redis(self):
        self.stack.redis.ask("FLUSHALL")
        eventually("the restore", lambda: self.stack.redis.ask("EXISTS", "waybill:1:view:epoch") == 1)
        self.findings.saw("restores of what the other release wrote")

    def judge(self):
        offsets = Offsets(self.stack)
        moments = self.judge_versions(offsets)
        self.judge_letters(offsets)
        offsets.close()
        for device in self.devices:
            self.judge_package(device, self.client)
        self.judge_pushes(0, moments, [])
        self.judge_registrations()
