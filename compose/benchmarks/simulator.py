"""The admin port of the APNs simulator."""

import json
import math
import typing

from client import ask
from pace import Repeater
from stack import Failure, eventually

# Deliveries that are read in one go.
PAGE = 5000


class Delivery(typing.NamedTuple):
    """A request for a notification, and its answer. moment: milliseconds since 1970."""

    sequence: int
    token: str
    status: int
    reason: str
    moment: int

    @classmethod
    def of(cls, told):
        return cls(told["sequence"], told["token"], told["status"], told["reason"], told["receivedEpochMilliseconds"])


def tell(url, path, method="GET", body=None):
    """One request to the admin port; returns its answer."""
    return json.loads(ask(url, path, method, body))


def first_told(url, tokens, seconds=60):
    """Milliseconds since 1970 of the first accepted delivery to each push token; returns when each has one."""
    tokens, told, last = set(tokens), {}, 0

    def are_told():
        nonlocal last
        page = tell(url, f"/deliveries?after={last}&wait=1")
        last = page["last"]
        for delivery in map(Delivery.of, page["deliveries"]):
            if delivery.status == 200 and delivery.token in tokens:
                told.setdefault(delivery.token, delivery.moment)
        return len(told) == len(tokens)

    eventually(lambda: f"telling {len(tokens) - len(told)} of {len(tokens)} devices", are_told, seconds, pause=0)
    return told


class Simulator:
    """
    Reads all deliveries as they come, in a thread.

    deliveries: in the order of their coming.
    """

    def __init__(self, url):
        self.url, self.deliveries, self.accepted = url, [], 0
        self.last = self.ask("GET", f"/deliveries?after={2 ** 63}")["last"]
        self.reading = Repeater(self.read, math.inf)

    def ask(self, method, path, body=None):
        return tell(self.url, path, method, body)

    def read(self, _):
        page = self.ask("GET", f"/deliveries?after={self.last}&wait=1&limit={PAGE}")
        for delivery in map(Delivery.of, page["deliveries"]):
            if delivery.sequence != self.last + 1:
                raise Failure(f"the simulator forgot deliveries before {delivery.sequence}")
            self.last = delivery.sequence
            self.accepted += delivery.status == 200
            self.deliveries.append(delivery)

    def settle(self):
        """Returns when nothing has come for 1.5 s."""
        last = -1
        while last != len(self.deliveries):
            last = len(self.deliveries)
            self.reading.wait(1.5)

    def close(self):
        self.reading.stop()
