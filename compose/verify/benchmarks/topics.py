"""Kafka: writing records, reading records, and committed offsets."""

import collections
import json
import time

import confluent_kafka

from orders import example
from stack import Failure, eventually

CHANGES = "waybill.order-changes"
ORDERS = "waybill.orders"
COMPACTED = (ORDERS, "waybill.registrations", "waybill.push-pending")
# librdkafka does not log that a broker is away: that is a Failure where it matters, and normal when a stack ends.
QUIET = {"log_level": 2}


class Producer:
    """Publishes records. settings: of librdkafka."""

    def __init__(self, bootstrap, settings=None):
        self.failed = []
        self.producer = confluent_kafka.Producer(QUIET | {
            "bootstrap.servers": bootstrap, "linger.ms": 2, "message.timeout.ms": 30000, "socket.nagle.disable": True,
        } | (settings or {}))

    def put(self, topic, key, value, **others):
        """Queues a record; waits while the queue is full. others: arguments of confluent_kafka."""
        while True:
            try:
                self.producer.produce(topic, key=key, value=value, on_delivery=self.delivered, **others)
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)

    def delivered(self, error, message):
        if error:
            self.failed.append(str(error))

    def flush(self):
        if self.producer.flush(60) or self.failed:
            raise Failure(f"publishing: {self.failed[:1] or 'no answer in 60 s'}")


class Publisher(Producer):
    """Publishes events on `waybill.order-changes`. late: seconds by which the clock of their timestamps is slow."""

    def __init__(self, stack, settings=None, late=0):
        super().__init__(stack.env["KAFKA_BOOTSTRAP"], settings)
        self.stack, self.count, self.late = stack, 0, late

    def connect(self):
        """Fetches the topic's metadata, without which librdkafka sends the first records up to a second late."""
        self.producer.list_topics(CHANGES, timeout=10)

    def send(self, order, kind, data):
        self.send_event(f"{self.stack.type}/{order}", f"waybill.order.{kind}", data)

    def send_event(self, key, kind, data, **attributes):
        """Queues an event. attributes: extension attributes of CloudEvents."""
        self.count += 1
        event = {
            "specversion": "1.0", "type": kind, "source": "/waybill/bench",
            "id": f"{time.time_ns()}-{self.count}", "subject": key, "datacontenttype": "application/json", "data": data,
        } | attributes
        self.put(
            CHANGES, key, json.dumps(event), timestamp=int((time.time() - self.late) * 1000),
            headers={"content-type": "application/cloudevents+json"})

    def replace_all(self, orders):
        """Publishes documents by order identifier, and returns when each order has a package."""
        for order, document in orders.items():
            self.send(order, "replaced", document)
        self.flush()
        waiting = list(orders)

        def are_packaged():
            found = self.stack.redis.ask_all(("HEXISTS", self.stack.order_key(order), "head") for order in waiting)
            waiting[:] = [order for order, exists in zip(waiting, found) if not exists]
            return not waiting

        eventually(lambda: f"packages of {len(waiting)} of {len(orders)} orders", are_packaged, 120, pause=0.1)

    def replace_with_example(self, orders, token=None):
        """Publishes the example order under these identifiers, and returns when each order has a package."""
        document = example() | ({"authenticationToken": token} if token else {})
        self.replace_all({order: document | {"orderNumber": order} for order in orders})


def key_of(message):
    return (message.key() or b"").decode(errors="replace")


class Reader:
    """Reads topics, and the offsets that a group has committed; commits nothing."""

    def __init__(self, bootstrap, group="waybill-bench"):
        self.consumer = confluent_kafka.Consumer(QUIET | {
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5})

    def places(self, topic):
        partitions = self.consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return [confluent_kafka.TopicPartition(topic, partition) for partition in partitions]

    def bounds(self, place):
        """Returns the offset of a partition's first record, and the offset after its last."""
        return self.consumer.get_watermark_offsets(place, timeout=10)

    def ends(self, topic):
        """Returns the offset after the last record, by partition."""
        return {place.partition: self.bounds(place)[1] for place in self.places(topic)}

    def committed(self, topic):
        """Returns the partitions with the offsets that the group has committed; below zero: none."""
        return self.consumer.committed(self.places(topic), timeout=10)

    def lag(self, topic):
        """Returns the number of records that are not committed."""
        behind = 0
        for place in self.committed(topic):
            low, high = self.bounds(place)
            behind += high - max(low, place.offset)
        return behind

    def follow(self, topic):
        """Assigns the topic to `consumer`, from its present end."""
        places = self.places(topic)
        for place in places:
            place.offset = self.bounds(place)[1]
        self.consumer.assign(places)

    def messages(self, topic):
        """Returns all records of a topic that the broker has, ordered within each partition."""
        found, ends, places = [], {}, self.places(topic)
        for place in places:
            place.offset, ends[place.partition] = self.bounds(place)
        places = [place for place in places if ends[place.partition] > place.offset]
        ends = {place.partition: ends[place.partition] for place in places}
        self.consumer.assign(places)
        deadline = time.monotonic() + 60
        while ends:
            for message in self.consumer.consume(1000, 0.5):
                if message.error():
                    raise Failure(f"reading {topic}: {message.error()}")
                found.append(message)
                if message.offset() + 1 >= ends.get(message.partition(), 0):
                    ends.pop(message.partition(), None)
            if time.monotonic() > deadline:
                raise Failure(f"reading {topic}: partitions {sorted(ends)} were not read to their end")
        self.consumer.unassign()
        return found

    def records(self, topic):
        """Returns (key, value, headers) of all records."""
        return [(key_of(message), message.value(), dict(message.headers() or [])) for message in self.messages(topic)]

    def places_by_key(self, topic):
        """Returns the list of (topic, partition, offset) of each key's records, by key."""
        places = collections.defaultdict(list)
        for message in self.messages(topic):
            places[key_of(message)].append((topic, message.partition(), message.offset()))
        return places

    def close(self):
        self.consumer.close()


class Offsets(Reader):
    """A reader with the pusher's offsets; the pusher reads the pending topic in a separate group."""

    PENDING = "waybill.push-pending"

    def __init__(self, stack):
        super().__init__(stack.env["KAFKA_BOOTSTRAP"], "waybill-pusher")
        self.pending = Reader(stack.env["KAFKA_BOOTSTRAP"], "waybill-pusher-pending")

    def committed(self, topic):
        return self.pending.committed(topic) if topic == self.PENDING else super().committed(topic)

    def close(self):
        super().close()
        self.pending.close()
