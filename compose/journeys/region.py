"""
Producers and services move to another Kafka; started by compose/journey region.

Each order has a device and gets twenty changes, each of which can be seen in its package. A mirror copies all topics,
the changes under the name `east.waybill.order-changes`. The services move while changes are published in the east; when
they have read what the mirror has, the producers follow, with clocks that are an hour behind.
"""

import collections
import json
import os
import random
import subprocess
import time

import confluent_kafka
from confluent_kafka.admin import AdminClient

from faults_world import Offsets, Simulator
from mirror import Mirror
from peers import free_ports
from stack import Failure, Publisher, derived_token, edit_command
from subject import run
from world import Client, Device, Load, Unanswered, World, say

CHANGES = "waybill.order-changes"
MIRRORED = f"east.{CHANGES}"
COMPACTED = ("waybill.orders", "waybill.registrations", "waybill.push-pending")
SERVICES = ("gateway", "packager", "pusher")
# Changes of an order, the first of which creates it.
EACH = 20
# Of this many changes of each order the services in the east see so many, and then so many come there all the same.
EAST, ABANDONED = 8, 4
# One of so many orders does not change after the services have moved.
QUIET = 4
RATE = 400
# How often each device registers in the beginning.
HISTORY = 5
HOUR = 3600


class Region(World):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.type = self.stack.type
        # One of QUIET orders has its creation and EAST changes, the others have EACH.
        count = QUIET * -(-arguments.changes // (1 + EAST + (QUIET - 1) * EACH))
        self.devices = [Device(number, f"{self.type}/region-{number}") for number in range(count)]
        for device in self.devices:
            device.token = derived_token(self.secret, device.key)
            device.published, device.posts, device.is_registered = 0, 0, False
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
            self.settle_quiet(simulator)
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

    def publish(self, devices, rounds):
        """Changes that can all be seen in the end: each fulfillment stays, and the last number."""
        begin, sent = time.monotonic(), 0
        for _ in range(rounds):
            for device in devices:
                number, order = device.published, device.key.split("/")[1]
                if number == 0:
                    self.publisher.send(order, "replaced", self.document | {"orderNumber": "0", "fulfillments": []})
                elif number % 2:
                    self.publisher.send_event(f"{self.type}/{order}", "waybill.fulfillment.updated", {
                        "fulfillmentIdentifier": f"f{number}", "fulfillmentType": "shipping", "status": "processing"})
                else:
                    self.publisher.send(order, "patched", {"orderNumber": str(number)})
                device.published += 1
                sent += 1
                time.sleep(max(0.0, begin + sent / RATE - time.monotonic()))
        self.publisher.flush()
        self.findings.saw("changes published", sent)

    def are_packaged(self, client):
        return all(device.order or device.fetch(client) == 200 for device in self.devices)

    def register(self, device, client):
        if device.register(client) not in (200, 201):
            raise Failure(f"{device.key}: registering is refused")
        device.posts, device.is_registered = device.posts + 1, True

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

    def settle_quiet(self, simulator):
        """Orders that are quiet from here on are told of before the services move."""
        last = -1
        while last != simulator.accepted:
            last = simulator.accepted
            time.sleep(1)

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

    @staticmethod
    def patiently(deadline, action):
        while True:
            try:
                if action():
                    return
            except Unanswered:
                pass
            if time.monotonic() > deadline:
                raise Failure("the gateway in the west does not answer within 30 s")
            time.sleep(0.2)

    # --- while it moves ----------------------------------------------------------------------------------------------

    def fetch_some(self, number):
        device = random.choice(self.devices)
        with device.lock:
            before = device.order and device.order["updatedAt"]
            try:
                status = device.fetch(self.fetches[number], is_conditional=random.random() < 0.5)
            except Unanswered:
                self.findings.saw("fetches without an answer, the gateway is away")
                return
            self.findings.saw(f"fetches: {status}")
            if status not in (200, 304, 503):
                self.findings.add(f"the device of {device.key} fetches and is answered {status}")
            elif before and device.order["updatedAt"] < before:
                self.findings.add(f"{device.key} went back from {before} to {device.order['updatedAt']}")

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

    def await_rest(self, simulator):
        offsets = Offsets(self.stack)
        for topic in COMPACTED:
            self.eventually(f"the pusher on {topic}", lambda: offsets.lag(topic) == 0)
        offsets.close()
        self.settle_quiet(simulator)

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

    def judge_package(self, device, client):
        if device.fetch(client) != 200:
            self.findings.add(f"{device.key} is not served")
            return
        number = device.published - 1
        wanted = [f"f{odd}" for odd in range(1, number + 1, 2)]
        found = [each["fulfillmentIdentifier"] for each in device.order.get("fulfillments", [])]
        if found != wanted or device.order["orderNumber"] != str(number - number % 2):
            self.findings.add(
                f"{device.key} has number {device.order['orderNumber']} and {found} after change {number}")
        self.findings.saw("packages compared")

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

    def judge_registrations(self, client):
        """A device lists its order exactly while it is registered."""
        for device in self.devices:
            wanted = [device.key.split("/")[1]] if device.is_registered else []
            listed = device.list(client)
            if listed != wanted:
                self.findings.add(f"the device of {device.key} lists {listed}, right is {wanted}")
            stored = self.stack.redis.ask("HEXISTS", f"waybill:devices:{{{device.key}}}", device.name)
            if stored != device.is_registered:
                self.findings.add(f"the device of {device.key} is {'not ' if not stored else ''}registered")
            self.findings.saw("registrations compared")


def seen(document):
    """The number of the last change that a document has."""
    odd = [int(each["fulfillmentIdentifier"][1:]) for each in document.get("fulfillments", [])]
    return max([int(document["orderNumber"]), *odd])


if __name__ == "__main__":
    run(Region, bin=str, changes=10000, **{"lose-redis": False})
