"""Simulated devices, with the identifiers and push tokens that Wallet gives them, and their registrations."""

import json
import time

from client import Connection, showing
from stack import Failure, derived_token

# Each has one registration in flight.
CONNECTIONS = 128


def now():
    """Returns the milliseconds since 1970, like the moments in the simulator's records."""
    return time.time_ns() // 1_000_000


class Device:
    """
    A device with its orders, `<type>/<id>`, which all have one type.

    events: (moment, name) of everything that it must be notified of. generation: counts its push tokens, from 0.
    """

    def __init__(self, number, orders, story=None):
        self.number, self.orders, self.story = number, orders, story
        self.generation, self.events = 0, []

    @property
    def name(self):
        return f"device-{self.number:032x}"

    @property
    def push_token(self):
        return f"{self.number:056x}{self.generation:08x}"


class Registrar:
    """Registers devices as Wallet does."""

    def __init__(self, stack):
        self.secret = stack.secret()
        self.connections = [Connection(stack.gateway_port) for _ in range(CONNECTIONS)]

    def register(self, devices):
        """Registers each device for its orders with its current push token, CONNECTIONS at a time."""
        todo = [(device, order) for device in devices for order in device.orders]
        for start in range(0, len(todo), len(self.connections)):
            under_way = list(zip(self.connections, todo[start:start + len(self.connections)]))
            for connection, (device, order) in under_way:
                device.events.append((now(), "registration"))
                connection.send(
                    f"/v1/devices/{device.name}/registrations/{order}", showing(derived_token(self.secret, order)),
                    "POST", json.dumps({"pushToken": device.push_token}))
            for connection, (device, order) in under_way:
                answer = connection.receive()
                if answer.status not in (200, 201):
                    raise Failure(
                        f"registering {device.name} for {order}: status {answer.status} {answer.body[:200]}")

    def close(self):
        for connection in self.connections:
            connection.close()
