"""Orders with a device each. All changes are visible in the packages, so that a lost one is noticed."""

import collections
import json
import random

from pace import paced
from stack import Failure, derived_token, eventually
from topics import COMPACTED, Offsets, Reader, key_of
from world import Device, Unanswered, World

# Changes a second.
RATE = 400


class TrackedOrders(World):
    """A world of orders, each with a device that may fetch it at any time and register for it."""

    def __init__(self, arguments, stack, name, count):
        super().__init__(arguments, stack)
        self.fetches = []
        self.devices = [Device(number, f"{self.type}/{name}-{number}") for number in range(count)]
        for device in self.devices:
            device.token = derived_token(self.secret, device.key)
            device.published, device.posts, device.is_registered = 0, 0, False
            # The removal is published; the gateway has shown that it knows of it.
            device.is_removed, device.is_gone = False, False

    # --- the load ---------------------------------------------------------------------------------------------------

    def change(self, device):
        """Publishes the next change of an order. At the end all are visible: each fulfillment, and the last number."""
        number, order = device.published, device.identifier
        if number == 0:
            self.publisher.send(order, "replaced", self.document | {"orderNumber": "0", "fulfillments": []})
        elif number % 2:
            self.publisher.send_event(device.key, "waybill.fulfillment.updated", {
                "fulfillmentIdentifier": f"f{number}", "fulfillmentType": "shipping", "status": "processing"})
        else:
            self.publisher.send(order, "patched", {"orderNumber": str(number)})
        device.published += 1
        self.findings.saw("changes published")

    def publish(self, devices, rounds):
        """Publishes this many changes of each order, RATE a second."""
        for device in paced(devices * rounds, RATE):
            self.change(device)
        self.publisher.flush()

    def await_packages(self):
        eventually("packages of all orders", lambda: all(
            device.order or device.fetch(self.client) == 200 for device in self.devices))

    def register(self, device):
        if device.register(self.client) not in ((200, 201) if device.posts else (201,)):
            raise Failure(f"{device.key}: the gateway did not register its device")
        device.posts, device.is_registered = device.posts + 1, True

    @staticmethod
    def patiently(action):
        """Asks the gateway repeatedly until it answers as expected."""
        eventually("the expected answer from the gateway", action, 30, 0.2, Unanswered)

    def fetch_some(self, number):
        device = random.choice(self.devices)
        with device.lock:
            try:
                self.fetch(device, self.fetches[number])
            except Unanswered:
                self.findings.saw("fetches without an answer, the gateway is away")

    def fetch(self, device, client, gateway="the gateway"):
        """Fetches with or without a condition; the answer must be right at any time."""
        before = device.order and device.order["updatedAt"]
        status = device.fetch(client, is_conditional=random.random() < 0.5)
        self.findings.saw(f"fetches: {status}")
        if device.is_removed and status not in (200, 304):
            device.is_gone = True
        elif status not in (200, 304, 503):
            self.findings.add(f"the device of {device.key} fetches from {gateway} and is answered {status}")
        elif device.is_gone:
            self.findings.add(f"{device.key} was removed and is served again by {gateway}: {status}")
        elif before and device.order["updatedAt"] < before:
            self.findings.add(f"{device.key} went back from {before} to {device.order['updatedAt']} at {gateway}")

    def await_changes(self, bootstrap, topics):
        """Returns when the packagers have read these topics to their ends."""
        reader = Reader(bootstrap, "waybill-packager")
        eventually(f"reading {' and '.join(topics)}", lambda: sum(map(reader.lag, topics)) == 0, 120)
        reader.close()

    def await_rest(self):
        """Returns when the pusher has no work left."""
        offsets = Offsets(self.stack)
        for topic in COMPACTED:
            eventually(f"the pusher on {topic}", lambda: offsets.lag(topic) == 0)
        offsets.close()
        self.simulator.settle()

    # --- judging ----------------------------------------------------------------------------------------------------

    def judge_letters(self, offsets):
        if letters := offsets.records("waybill.dead-letters"):
            self.findings.add(f"{len(letters)} dead letters, the first: {letters[0]}")

    def judge_versions(self, offsets, where=""):
        """Requires that each version has more changes. Returns the time of each order's last version."""
        count, moments, last = 0, {}, {}
        for message in offsets.messages("waybill.orders"):
            key, now = key_of(message), seen(json.loads(message.value())["document"])
            if key in last and now <= last[key]:
                self.findings.add(f"{key} has a version with {now} changes after one with {last[key]}")
            last[key], moments[key] = now, message.timestamp()[1]
            count += 1
        self.findings.saw(f"versions on waybill.orders {where}".rstrip(), count)
        return moments

    def judge_package(self, device, client):
        is_served = device.fetch(client) == 200
        if is_served == device.is_removed:
            self.findings.add(f"{device.key} is {'served after its removal' if is_served else 'not served'}")
        self.findings.saw("removed orders compared", device.is_removed)
        if device.is_removed or not is_served:
            return
        number = device.published - 1
        wanted = [f"f{odd}" for odd in range(1, number + 1, 2)]
        found = [each["fulfillmentIdentifier"] for each in device.order.get("fulfillments", [])]
        if found != wanted or device.order["orderNumber"] != str(number - number % 2):
            self.findings.add(
                f"{device.key} has number {device.order['orderNumber']} and {found} after change {number}")
        self.findings.saw("packages compared")

    def judge_pushes(self, first, moments, quiet):
        """
        Requires that no device is notified more often than there are reasons, quiet ones not at all from delivery
        `first` on, and registered ones after the time of their order's last version.
        """
        pushes, after, last = collections.Counter(), collections.Counter(), collections.Counter()
        for place, delivery in enumerate(self.simulator.deliveries):
            if delivery.status == 200:
                pushes[delivery.token] += 1
                after[delivery.token] += place >= first
                last[delivery.token] = delivery.moment
        self.findings.saw("notifications", sum(pushes.values()))
        for device in self.devices:
            token = device.push_token
            # Each change makes at most one version, and a registration soon after one also causes a notification.
            most = device.published + device.posts
            if pushes[token] > most:
                self.findings.add(f"{device.key} was pushed {pushes[token]} times for {most} reasons")
            if device in quiet and after[token]:
                self.findings.add(f"{device.key} was pushed {after[token]} times although unchanged")
            if device.is_registered and last[token] < moments[device.key] - 1:
                self.findings.add(f"the device of {device.key} was not notified of its last version")
        self.findings.saw("quiet orders", len(quiet))

    def judge_registrations(self):
        """Requires that a device lists its order exactly if it is registered."""
        for device in self.devices:
            wanted = [device.identifier] if device.is_registered else []
            listed = device.list(self.client)
            if listed != wanted:
                self.findings.add(f"the device of {device.key} lists {listed} instead of {wanted}")
            stored = self.stack.redis.ask("HEXISTS", f"waybill:1:devices:{{{device.key}}}", device.name)
            if stored != device.is_registered:
                self.findings.add(f"the device of {device.key} is {'not ' if not stored else ''}registered")
            self.findings.saw("registrations compared")


def seen(document):
    """Returns the number of the last change that is in a document."""
    odd = [int(each["fulfillmentIdentifier"][1:]) for each in document.get("fulfillments", [])]
    return max([int(document["orderNumber"]), *odd])
