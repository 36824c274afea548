"""The admin port of the APNs simulator."""

import json
import math
import typing

from client import ask
from pace import Repeater
from stack import Failure, eventually

# The most deliveries read in one request.
PAGE = 5000


class Delivery(typing.NamedTuple):
    """A notification request and its answer. moment: of its arrival, in milliseconds since 1970."""

    sequence: int
    token: str
    status: int
    reason: str
    moment: int

    @classmethod
    def of(cls, told):
        return cls(told["sequence"], told["token"], told["status"], told["reason"], told["receivedEpochMilliseconds"])


def tell(url, path, method="GET", body=None):
    """Sends one request to the admin port, and returns the answer."""
    return json.loads(ask(url, path, method, body))


def first_told(url, tokens, seconds=60):
    """Waits for an accepted delivery to each push token; returns when the first arrived, in ms since 1970."""
    tokens, told, last = set(tokens), {}, 0

    def are_told():
        nonlocal last
        page = tell(url, f"/deliveries?after={last}&wait=1")
        last = page["last"]
        for delivery in map(Delivery.of, page["deliveries"]):
            if delivery.status == 200 and delivery.token in tokens:
                told.setdefault(delivery.token, delivery.moment)
        return len(told) == len(tokens)

    eventually(lambda: f"notifying {len(tokens) - len(told)} of {len(tokens)} devices", are_told, seconds, pause=0)
    return told


class Simulator:
    """
    Reads all deliveries as they arrive, in a thread.

    deliveries: in the order of arrival.
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
        """Returns when nothing has arrived for 1.5 s."""
        last = -1
        while last != len(self.deliveries):
            last = len(self.deliveries)
            self.reading.wait(1.5)

    def close(self):
        self.reading.stop()
