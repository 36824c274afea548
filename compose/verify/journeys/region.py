"""
Producers and services move to another Kafka.

Each order has a device and up to twenty changes, each of which is visible in its package. A mirror copies the compacted
topics, and the changes as `east.waybill.order-changes`. The services move while changes are published in the east; when
they have read everything that the mirror has, the producers follow, with clocks that are an hour behind.
"""

import json

from mirror import PUSHERS, Mirror, clusters
from pace import Repeater
from processes import start_broker
from stack import SERVICES, Failure, say
from topics import CHANGES, COMPACTED, Offsets, Publisher, key_of
from tracked import TrackedOrders, seen
from world import Client

MIRRORED = f"east.{CHANGES}"
# Changes of an order that is not quiet; the first one creates it.
EACH = 20
# Changes after the creation that the services in the east see, and those that are published there after they left.
EAST, ABANDONED = 8, 4
# One of this many orders does not change any more once the services leave.
QUIET = 4
# Registrations of each device at the beginning.
HISTORY = 5
HOUR = 3600


class Region(TrackedOrders):
    def __init__(self, arguments, stack):
        # One of QUIET orders has its creation and EAST changes, the others have EACH.
        super().__init__(arguments, stack, "region", QUIET * -(-arguments.changes // (1 + EAST + (QUIET - 1) * EACH)))

    # --- the story ---------------------------------------------------------------------------------------------------

    def travel(self):
        self.east = self.stack.env["KAFKA_BOOTSTRAP"]
        topics = (CHANGES, MIRRORED, "waybill.dead-letters", *COMPACTED)
        self.broker, self.west = start_broker(f"{self.stack.folder}/log", "kafka-west", dict.fromkeys(topics, 64))
        try:
            say(f"two clusters, {' and '.join(clusters(self.east, self.west))}")
            self.move()
        finally:
            self.broker.stop()

    def move(self):
        self.publish(self.devices, 1)
        self.await_packages()
        # Several times, so that offsets in the east are higher than those of the copies: only the last ones are copied.
        for _ in range(HISTORY):
            for device in self.devices:
                self.register(device)
        self.publish(self.devices, EAST // 2)
        mirror = Mirror(self.east, self.west, {CHANGES: MIRRORED}, {topic: topic for topic in COMPACTED})
        self.fetches = [Client(self.stack.gateway_port) for _ in range(4)]
        with Repeater(self.fetch_some, 100, 4):
            self.publish(self.devices, EAST - EAST // 2)
            self.simulator.settle()
            self.races = self.race_before()
            self.leave(mirror)
            applied = self.applied_in_the_east()
            self.publish(self.loud, ABANDONED // 2)
            if self.arguments.lose_redis:
                self.stack.redis.ask("FLUSHALL")
            told = len(self.simulator.deliveries)
            self.arrive(mirror)
            self.race_after()
            say("the producers go on in the east")
            self.publish(self.loud, ABANDONED - ABANDONED // 2)
            mirror.drain([CHANGES])
            self.settle([MIRRORED])
            say("the producers move")
            self.publisher = Publisher(
                self.stack, {"partitioner": "murmur2_random", "bootstrap.servers": self.west}, late=HOUR)
            self.publish(self.loud, EACH - 1 - EAST - ABANDONED)
            self.settle([MIRRORED, CHANGES])
        mirror.close()
        self.stack.env["KAFKA_BOOTSTRAP"] = self.west
        self.await_rest()
        self.judge(applied, told)

    @property
    def loud(self):
        return [device for device in self.devices if device.number % QUIET]

    def leave(self, mirror):
        """Stops the services in the east, copies all that they wrote, and translates the offsets of their groups."""
        say("the services end in the east")
        self.stack.stop(*reversed(SERVICES))
        mirror.drain(COMPACTED)
        for group, topics in PUSHERS.items():
            mirror.carry(group, topics)

    def arrive(self, mirror):
        """Starts the services in the west. The packagers have no offsets there, and read all changes."""
        say("the services start in the west")
        mirror.drain(COMPACTED)
        for service in SERVICES:
            self.stack.edit_command(service, self.east, self.west)
        self.stack.start(*SERVICES)

    # --- registrations that end and begin around the move ------------------------------------------------------------

    def race_before(self):
        """Registers some devices again, and ends the registrations of others, right before the move."""
        ending, beginning = self.devices[1::10], self.devices[2::10]
        for device in ending:
            self.register(device)
        for device in beginning:
            if device.unregister(self.client) != 200:
                raise Failure(f"{device.key}: the gateway did not end its registration")
            device.is_registered = False
        return ending, beginning

    def race_after(self):
        """Ends the renewed registrations, and begins the ended ones again, right after the move."""
        ending, beginning = self.races
        for device in ending:
            self.patiently(lambda: device.unregister(self.client) == 200)
            device.is_registered = False
        for device in beginning:
            self.patiently(lambda: device.register(self.client) in (200, 201))
            device.posts, device.is_registered = device.posts + 1, True
        self.findings.saw("registrations ended or begun right after the move", len(ending) + len(beginning))

    def applied_in_the_east(self):
        """Returns the number of changes in the last records of all orders in the east."""
        offsets = Offsets(self.stack)
        last = {}
        for message in offsets.messages("waybill.orders"):
            last[key_of(message)] = json.loads(message.value())["document"]
        offsets.close()
        return sum(seen(document) + 1 for document in last.values())

    def settle(self, topics):
        """Returns when the packagers have read these topics of the west to their ends."""
        self.await_changes(self.west, topics)

    # --- judging ----------------------------------------------------------------------------------------------------

    def judge(self, applied, told):
        offsets = Offsets(self.stack)
        moments = self.judge_versions(offsets, "in the west")
        self.judge_letters(offsets)
        offsets.close()
        for device in self.devices:
            self.judge_package(device, self.client)
        here = self.metric("waybill_changes_applied_total")
        published = sum(device.published for device in self.devices)
        self.findings.saw("changes applied in the east", applied)
        self.findings.saw("changes applied in the west", here)
        self.findings.saw("changes that came again and were skipped", self.metric("waybill_changes_skipped_total"))
        if applied + here != published:
            self.findings.add(f"{published} changes were published, {applied} and {here} applied")
        raced = [device for devices in self.races for device in devices]
        quiet = [device for device in self.devices if device.number % QUIET == 0 and device not in raced]
        # Their last versions were notified in the east.
        for device in quiet:
            moments[device.key] = 0
        self.judge_pushes(told, moments, quiet)
        self.judge_registrations()
