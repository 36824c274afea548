"""
`waybill.orders` and `waybill.registrations` get more partitions, then Redis is lost.

Changes and fetches go on throughout. Before the partitions are added, before `rekey` and after it, orders are removed
and registrations ended, different ones each time. `--kafka` names a cluster: the embedded broker's topics cannot grow.
"""

import collections
import concurrent.futures
import random
import time

from confluent_kafka.admin import AdminClient, ConfigResource

from operations import GROWING, grow_partitions, partitions_added, rekey
from pace import Repeater
from stack import Failure, eventually, say
from topics import COMPACTED, Offsets, key_of
from tracked import TrackedOrders, seen
from world import Client

BEFORE, AFTER = 16, 48
# By the remainder of an order's number: it is removed, or its registration ends, before the partitions are added,
# between that and rekey, or after rekey. QUIET orders have only their first changes; the others change throughout.
REMOVED, ENDED, QUIET, GROUPS = (0, 1, 2), (3, 4, 5), 6, 10
# Changes of an order before the partitions are added.
FIRST = 6
# Seconds that the cluster has to clean its logs before Redis is lost.
CLEANING = 30


class Partitions(TrackedOrders):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack, "partitions", arguments.orders)
        self.admin = AdminClient({"bootstrap.servers": self.stack.env["KAFKA_BOOTSTRAP"]})

    def group(self, remainder):
        return [device for device in self.devices if device.number % GROUPS == remainder]

    # --- the story ---------------------------------------------------------------------------------------------------

    def travel(self):
        for topic in GROWING:
            count = len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
            if count != BEFORE:
                raise Failure(f"{topic} has {count} partitions instead of {BEFORE}: use a new cluster")
        self.publish(self.devices, FIRST)
        self.await_packages()
        for device in self.devices:
            self.register(device)
        self.simulator.settle()
        self.fetches = [Client(self.stack.gateway_port) for _ in range(4)]
        self.busy = [device for device in self.devices if device.number % GROUPS > QUIET]
        self.told = len(self.simulator.deliveries)
        with Repeater(self.fetch_some, 100, 4), Repeater(lambda _: self.change(random.choice(self.busy)), 100):
            self.grow()
            self.lose_redis()
        # The restored registrations and orders must be usable for another change.
        self.publish([each for each in self.devices if not each.is_removed and each.number % GROUPS != QUIET], 1)
        self.await_changes()
        self.await_rest()
        self.judge()

    def grow(self):
        self.end(0)
        say(f"{' and '.join(GROWING)} grow from {BEFORE} to {AFTER} partitions")
        grow_partitions(self.stack, GROWING, AFTER - BEFORE)
        self.end(1)
        say("rekey")
        moved, left = rekey(self.stack)
        self.findings.saw("keys moved by rekey", moved)
        if left:
            self.findings.add(f"rekey leaves {left} keys")
        self.end(2)
        eventually("the packager notices that all keys are moved", lambda: partitions_added(self.stack) == 0, 90)
        moved, left = rekey(self.stack, "--dry-run")
        if moved or left:
            self.findings.add(f"after rekey {moved + left} keys are in the wrong partitions")

    def end(self, phase):
        """Removes this phase's orders and ends its registrations."""
        for device in self.group(REMOVED[phase]):
            device.is_removed, device.is_registered = True, False
            self.publisher.send(device.identifier, "removed", None)
        self.publisher.flush()
        for device in self.group(ENDED[phase]):
            self.patiently(lambda: device.unregister(self.client) == 200)
            device.is_registered = False

    def lose_redis(self):
        # Kafka then keeps only the records that its log cleaner leaves, which soon include no tombstones.
        for topic in GROWING:
            settings = {"cleanup.policy": "compact", "max.message.bytes": "4194304", "delete.retention.ms": "1",
                        "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=settings)
            for future in self.admin.alter_configs([resource]).values():
                future.result()
        before = self.size()
        time.sleep(CLEANING)
        self.findings.saw("records before the log cleaner", before)
        self.findings.saw("records after the log cleaner", self.size())
        say("Redis is emptied")
        self.stack.redis.ask("FLUSHALL")
        client = Client(self.stack.gateway_port)
        there = [device for device in self.devices if not device.is_removed]
        eventually("all orders are served again", lambda: all(each.fetch(client) == 200 for each in there))

    def size(self):
        offsets = Offsets(self.stack)
        records = sum(len(offsets.messages(topic)) for topic in GROWING)
        offsets.close()
        return records

    def await_changes(self):
        """Returns when each order is served with its last change."""
        for device in self.devices:
            if not device.is_removed:
                eventually(f"the last change of {device.key}", lambda: device.fetch(self.client) == 200
                                and seen(device.order) == device.published - 1)

    # --- judging ----------------------------------------------------------------------------------------------------

    def judge(self):
        offsets = Offsets(self.stack)
        self.judge_letters(offsets)
        moments = self.judge_topics(offsets)
        offsets.close()
        # In parallel: the gateway delays its answer about an order that it does not know, which may be on its way.
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda device: self.judge_package(device, Client(self.stack.gateway_port)), self.devices))
        self.judge_registrations()
        self.judge_pushes(self.told, moments, self.group(QUIET))

    def judge_topics(self, offsets):
        """Requires that no key has values in two partitions. Returns when each order's last non-silent version came."""
        moments = collections.Counter()
        for topic in COMPACTED:
            last = {}
            for message in offsets.messages(topic):
                key, headers = key_of(message), dict(message.headers() or [])
                last[key, message.partition()] = message.value()
                if topic == GROWING[0] and message.value() and "waybill-silent" not in headers:
                    moments[key] = max(moments[key], message.timestamp()[1])
            places = collections.Counter(key for (key, _), value in last.items() if value is not None)
            for key, count in places.items():
                if count > 1:
                    self.findings.add(f"{topic} has {count} values of {key}, each in another partition")
            self.findings.saw(f"keys with a value on {topic}", len(places))
        return moments
