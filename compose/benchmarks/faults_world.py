"""Devices that register over the gateway, changes of their orders, and what the simulator of APNs saw."""

import collections
import http.client
import json
import threading
import time
import urllib.parse

import confluent_kafka

from client import Connection
from stack import Failure, derived_token

# How many registrations are under way at once.
CONNECTIONS = 128
# Deliveries that are read in one go.
PAGE = 5000


def now():
    """Milliseconds since 1970, as the simulator counts them."""
    return time.time_ns() // 1_000_000


class Device:
    """
    A device with its orders, which are all of one type: `<type>/<id>`.

    events: (moment, what it was) of all that it has to be told of. generation: counts its push tokens.
    """

    __slots__ = ("number", "orders", "generation", "events", "story")

    def __init__(self, number, orders, story=None):
        self.number, self.orders, self.story = number, orders, story
        self.generation, self.events = 0, []

    @property
    def name(self):
        return f"device-{self.number:032x}"

    @property
    def token(self):
        return f"{self.number:056x}{self.generation:08x}"


class Registrar:
    """Registers devices as Wallet does."""

    def __init__(self, stack):
        self.stack = stack
        with open(stack.env["TOKEN_SECRETS"]) as file:
            self.secret = next(line.strip() for line in file if line.strip())
        self.connections = []

    def open(self):
        self.connections = [Connection(self.stack.gateway_port) for _ in range(CONNECTIONS)]

    def send(self, connection, device, order):
        headers = [("authorization", f"AppleOrder {derived_token(self.secret, order)}")]
        body = json.dumps({"pushToken": device.token})
        connection.send(f"/v1/devices/{device.name}/registrations/{order}", headers, "POST", body)

    def register_all(self, devices):
        """Registers each device for its orders, many at once."""
        todo = [(device, order) for device in devices for order in device.orders]
        for start in range(0, len(todo), len(self.connections)):
            under_way = list(zip(self.connections, todo[start:start + len(self.connections)]))
            for connection, (device, order) in under_way:
                device.events.append((now(), "registration"))
                self.send(connection, device, order)
            for connection, (device, order) in under_way:
                self.expect(connection, device, order)

    def register(self, device):
        """Registers a device again with the push token that it has now."""
        for order in device.orders:
            device.events.append((now(), "registration"))
            self.send(self.connections[0], device, order)
            self.expect(self.connections[0], device, order)

    @staticmethod
    def expect(connection, device, order):
        answer = connection.receive()
        if answer.status not in (200, 201):
            raise Failure(f"registering {device.name} for {order}: status {answer.status} {answer.body[:200]}")

    def close(self):
        for connection in self.connections:
            connection.close()


class Changes:
    """Puts records on `waybill.orders`, as a packager does when an order has a new version."""

    def __init__(self, stack):
        self.failed, self.count = [], 0
        # Order -> (partition, offset) of its last record.
        self.places = {}
        self.producer = confluent_kafka.Producer({
            "bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"], "linger.ms": 2, "socket.nagle.disable": True})

    def change(self, order, devices):
        moment = now()
        for device in devices:
            device.events.append((moment, "change"))
        self.count += 1
        while True:
            try:
                self.producer.produce("waybill.orders", key=order, value="{}", on_delivery=self.delivered)
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)

    def delivered(self, error, message):
        if error:
            self.failed.append(str(error))
        else:
            self.places[message.key().decode()] = (message.partition(), message.offset())

    def flush(self):
        if self.producer.flush(30) or self.failed:
            raise Failure(f"publishing changes: {self.failed[:1] or 'no answer in 30 s'}")


class Simulator:
    """The admin port, and a thread that reads all deliveries as they come."""

    def __init__(self, url):
        self.place = urllib.parse.urlsplit(url).netloc
        # (push token, status, reason, moment, connection), in the order of their coming.
        self.deliveries, self.accepted, self.error = [], 0, None
        self.last = self.ask("GET", f"/deliveries?after={2 ** 63}")["last"]
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.place, timeout=30)
        try:
            connection.request(method, path, body=json.dumps(body) if body else None)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status not in (200, 201):
            raise Failure(f"{method} {path} of the simulator: status {response.status} {answer[:200]}")
        return json.loads(answer)

    def read(self):
        try:
            while not self.is_over.is_set():
                page = self.ask("GET", f"/deliveries?after={self.last}&wait=1&limit={PAGE}")
                for delivery in page["deliveries"]:
                    if delivery["sequence"] != self.last + 1:
                        raise Failure(f"the simulator forgot deliveries before {delivery['sequence']}")
                    self.last = delivery["sequence"]
                    self.accepted += delivery["status"] == 200
                    self.deliveries.append((
                        delivery["token"], delivery["status"], delivery["reason"],
                        delivery["receivedEpochMilliseconds"], delivery["connection"]))
        except (Failure, OSError, ValueError) as error:
            self.error = str(error)

    def close(self):
        self.is_over.set()
        self.thread.join(40)


def key(message):
    return (message.key() or b"").decode(errors="replace")


class Offsets:
    """The records of topics, and the offsets that the pusher has committed."""

    # The pusher reads the pending topic in a group of its own.
    PENDING = "waybill.push-pending"

    def __init__(self, stack):
        self.consumer, self.pending = (
            confluent_kafka.Consumer({
                "bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"], "group.id": group, "enable.auto.commit": False})
            for group in ("waybill-pusher", "waybill-pusher-pending"))

    def places(self, topic):
        partitions = self.consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return [confluent_kafka.TopicPartition(topic, partition) for partition in partitions]

    def committed(self, topic):
        """Places with the offsets that the pushers have committed; below zero: none."""
        consumer = self.pending if topic == self.PENDING else self.consumer
        return consumer.committed(self.places(topic), timeout=10)

    def lag(self, topic):
        """Records that are not committed."""
        behind = 0
        for place in self.committed(topic):
            low, high = self.consumer.get_watermark_offsets(place, timeout=10)
            behind += high - max(low, place.offset)
        return behind

    def records(self, topic):
        """All of a topic that the broker has: (key, value, headers), per partition in their order."""
        return [(key(message), message.value(), dict(message.headers() or [])) for message in self.messages(topic)]

    def places_by_key(self, topic):
        """Key -> (topic, partition, offset) of its records."""
        places = collections.defaultdict(list)
        for message in self.messages(topic):
            places[key(message)].append((topic, message.partition(), message.offset()))
        return places

    def messages(self, topic):
        wanted, found = [], []
        for place in self.places(topic):
            low, high = self.consumer.get_watermark_offsets(place, timeout=10)
            place.offset = low
            if high > low:
                wanted.append((place, high))
        self.consumer.assign([place for place, _ in wanted])
        ends = {place.partition: high for place, high in wanted}
        deadline = time.monotonic() + 60
        while ends:
            for message in self.consumer.consume(1000, 0.5):
                if message.error():
                    raise Failure(f"reading {topic}: {message.error()}")
                found.append(message)
                if message.offset() + 1 >= ends.get(message.partition(), 0):
                    ends.pop(message.partition(), None)
            if time.monotonic() > deadline:
                raise Failure(f"reading {topic}: partitions {sorted(ends)} do not come to their end")
        self.consumer.unassign()
        return found

    def close(self):
        self.consumer.close()
        self.pending.close()
