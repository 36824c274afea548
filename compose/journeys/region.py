"""
Producers and services move to another Kafka; started by compose/journey region.

Each order has a device and gets twenty changes, each of which can be seen in its package. A mirror copies all topics,
the changes under the name `east.waybill.order-changes`. The services move while changes are published in the east; when
they have read what the mirror has, the producers follow, with clocks that are an hour behind.
"""

import collections
import json
import os
import subprocess
import time

import confluent_kafka
from confluent_kafka.admin import AdminClient

from faults_world import Offsets, Simulator
from mirror import Mirror
from peers import free_ports
from stack import Failure, Publisher, edit_command
from subject import run
from tracked import COMPACTED, TrackedOrders, seen
from world import Client, Load, say

CHANGES = "waybill.order-changes"
MIRRORED = f"east.{CHANGES}"
SERVICES = ("gateway", "packager", "pusher")
# Changes of an order, the first of which creates it.
EACH = 20
# Of this many changes of each order the services in the east see so many, and then so many come there all the same.
EAST, ABANDONED = 8, 4
# One of so many orders does not change after the services have moved.
QUIET = 4
# How often each device registers in the beginning.
HISTORY = 5
HOUR = 3600


class Region(TrackedOrders):
    def __init__(self, arguments):
        # One of QUIET orders has its creation and EAST changes, the others have EACH.
        super().__init__(arguments, "region", QUIET * -(-arguments.changes // (1 + EAST + (QUIET - 1) * EACH)))
        self.broker = None

    # --- the story ---------------------------------------------------------------------------------------------------

    def run(self):
        self.east = self.stack.env["KAFKA_BOOTSTRAP"]
        self.west = self.start_broker()
        names = [AdminClient({"bootstrap.servers": place}).list_topics(timeout=10).cluster_id
                 for place in (self.east, self.west)]
        if names[0] == names[1]:
            raise Failure(f"both brokers call their cluster {names[0]}")
        say(f"two clusters, {names[0]} and {names[1]}")
        try:
            return self.move()
        finally:
            self.broker.terminate()
            self.broker.wait()

    def move(self):
        simulator = Simulator(self.stack.env["APNS_ADMIN_URL"])
        client = Client(self.stack.gateway_port)
        self.publish(self.devices, 1)
        self.eventually("packages of all orders", lambda: self.are_packaged(client))
        # Several times, so that offsets in the east are higher than those of the copies, of which only the last stay.
        for _ in range(HISTORY):
            for device in self.devices:
                self.register(device, client)
        self.publish(self.devices, EAST // 2)
        mirror = Mirror(self.east, self.west, {CHANGES: MIRRORED}, {topic: topic for topic in COMPACTED})
        self.fetches = [Client(self.stack.gateway_port) for _ in range(4)]
        load = Load(self.fetch_some, 100, 4)
        try:
            self.publish(self.devices, EAST - EAST // 2)
            self.await_silence(simulator)
            self.races = self.race_before(client)
            self.leave(mirror)
            applied = self.applied_in_the_east()
            self.publish(self.loud, ABANDONED // 2)
            if self.arguments.lose_redis:
                self.stack.redis.ask("FLUSHALL")
            told = len(simulator.deliveries)
            self.arrive(mirror)
            self.race_after(client)
            say("the producers go on in the east")
            self.publish(self.loud, ABANDONED - ABANDONED // 2)
            mirror.drain([CHANGES])
            self.settle([MIRRORED])
            say("the producers move")
            self.publisher = Publisher(
                self.stack, {"partitioner": "murmur2_random", "bootstrap.servers": self.west}, late=HOUR)
            self.publish(self.loud, EACH - 1 - EAST - ABANDONED)
            self.settle([MIRRORED, CHANGES])
        finally:
            load.is_over.set()
        load.stop()
        mirror.close()
        self.stack.env["KAFKA_BOOTSTRAP"] = self.west
        self.await_rest(simulator)
        self.judge(simulator, client, applied, told)
        simulator.close()
        return self.findings.close()

    @property
    def loud(self):
        return [device for device in self.devices if device.number % QUIET]

    def start_broker(self):
        port, file = free_ports(1)[0], f"{self.stack.folder}/run/kafka-west.address"
        topics = [word for topic in (CHANGES, MIRRORED, "waybill.dead-letters", *COMPACTED)
                  for word in ("--topic", f"{topic}:64")]
        with open(f"{self.stack.folder}/log/kafka-west.log", "wb") as log:
            self.broker = subprocess.Popen(
                [f"{self.arguments.bin}/waybill-dev", "kafka", "--port", str(port), "--address-file", file, *topics],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.eventually("another broker", lambda: os.path.exists(file), 20)
        with open(file) as opened:
            return opened.read().strip()

    def leave(self, mirror):
        """The services end in the east; what they left is copied, and the offsets of their groups are translated."""
        say("the services end in the east")
        for service in SERVICES:
            self.stack.stop(service)
        mirror.drain(COMPACTED)
        for group, topics in (
            ("waybill-pusher", ("waybill.orders", "waybill.registrations")),
            ("waybill-pusher-pending", ("waybill.push-pending",)),
        ):
            mirror.carry(group, topics)

    def arrive(self, mirror):
        """The services start in the west. Its packagers know no offset, and read all changes from their beginning."""
        say("the services start in the west")
        mirror.drain(COMPACTED)
        for service in SERVICES:
            edit_command(self.stack.folder, service, self.east, self.west)
        for service in ("packager", "pusher", "gateway"):
            self.stack.start(service)

    # --- registrations that end and begin around the move ------------------------------------------------------------

    def race_before(self, client):
        """Right before the move some devices register again, and some end their registrations."""
        ending, beginning = self.devices[1::10], self.devices[2::10]
        for device in ending:
            self.register(device, client)
        for device in beginning:
            if device.unregister(client) != 200:
                raise Failure(f"{device.key}: ending a registration is refused")
            device.is_registered = False
        return ending, beginning

    def race_after(self, client):
        """Right after it these end, and those begin."""
        ending, beginning = self.races
        deadline = time.monotonic() + 30
        for device in ending:
            self.patiently(deadline, lambda: device.unregister(client) == 200)
            device.is_registered = False
        for device in beginning:
            self.patiently(deadline, lambda: device.register(client) in (200, 201))
            device.posts, device.is_registered = device.posts + 1, True
        self.findings.saw("registrations ended or begun right after the move", len(ending) + len(beginning))

    def applied_in_the_east(self):
        """How many changes the last record of each order has seen there."""
        offsets = Offsets(self.stack)
        last = {}
        for message in offsets.messages("waybill.orders"):
            last[message.key().decode()] = json.loads(message.value())["document"]
        offsets.close()
        return sum(seen(document) + 1 for document in last.values())

    def settle(self, topics):
        """Returns when the packagers have read topics of the west to their ends."""
        consumer = Mirror.client(self.west, "waybill-packager")

        def lag():
            places = [confluent_kafka.TopicPartition(topic, partition) for topic in topics for partition in range(64)]
            return sum(
                consumer.get_watermark_offsets(place, timeout=10)[1] - max(0, place.offset)
                for place in consumer.committed(places, timeout=10))

        try:
            self.eventually(f"reading {' and '.join(topics)}", lambda: lag() == 0, 120)
        finally:
            consumer.close()

    # --- what came out -----------------------------------------------------------------------------------------------

    def judge(self, simulator, client, applied, told):
        offsets = Offsets(self.stack)
        versions, moments = self.judge_versions(offsets)
        if letters := offsets.records("waybill.dead-letters"):
            self.findings.add(f"{len(letters)} dead letters, the first: {letters[0]}")
        offsets.close()
        for device in self.devices:
            self.judge_package(device, client)
        port = int(self.stack.env["OPERATIONS_PACKAGER"].rsplit(":", 1)[1])
        here = self.metric(port, "waybill_changes_applied_total")
        published = sum(device.published for device in self.devices)
        self.findings.saw("changes applied in the east", applied)
        self.findings.saw("changes applied in the west", int(here))
        self.findings.saw("changes that came again and were skipped",
                          int(self.metric(port, "waybill_changes_skipped_total")))
        if applied + here != published:
            self.findings.add(f"{published} changes were published, {applied} and {here:.0f} applied")
        self.judge_pushes(simulator, versions, moments, told)
        self.judge_registrations(client)

    def judge_versions(self, offsets):
        """Each version of the west says something new. Returns how many there are by order, and when the last came."""
        versions, moments, last = collections.Counter(), {}, {}
        for message in offsets.messages("waybill.orders"):
            key, value = message.key().decode(), json.loads(message.value())
            now = seen(value["document"])
            if key in last and now <= last[key]:
                self.findings.add(f"{key} has a version with {now} changes after one with {last[key]}")
            last[key], moments[key] = now, message.timestamp()[1]
            versions[key] += 1
        self.findings.saw("versions on waybill.orders in the west", sum(versions.values()))
        return versions, moments

    def judge_pushes(self, simulator, versions, moments, told):
        accepted = [(token, moment, place) for place, (token, status, _, moment, _) in enumerate(simulator.deliveries)
                    if status == 200]
        self.findings.saw("notifications", len(accepted))
        pushes, after, last = collections.Counter(), collections.Counter(), {}
        for token, moment, place in accepted:
            pushes[token] += 1
            after[token] += place >= told
            last[token] = moment
        for device in self.devices:
            token = device.push_token
            # Each of its changes made a version at most, and each registration so soon after one is told as well.
            most = device.published + device.posts
            if pushes[token] > most:
                self.findings.add(f"{device.key} was pushed {pushes[token]} times for {most} reasons")
            raced = any(device in devices for devices in self.races)
            if device.number % QUIET == 0 and not raced:
                self.findings.saw("quiet orders")
                if after[token]:
                    self.findings.add(f"{device.key} was pushed {after[token]} times after the move and is unchanged")
            elif device.is_registered and last.get(token, 0) < moments[device.key] - 1:
                self.findings.add(f"the device of {device.key} was not told of its last version")

if __name__ == "__main__":
    run(Region, bin=str, changes=10000, **{"lose-redis": False})
