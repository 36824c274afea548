"""The gateway and the pusher while Redis is restored: wrong answers to devices, and needless notifications."""

import collections
import random

from client import Connection, showing
from pace import Repeater
from simulator import Simulator
from stack import derived_token, eventually
from topics import Reader

ORDERS, CONNECTIONS = 400, 4
# Requests a second.
RATE = 200


class Watch:
    """
    Devices that fetch some orders continuously.

    answers: their number by status. wrong: the answers that are neither 503 nor the same as before, and the connections
    that end. told, pushes: notifications before the loss, and after it.
    """

    def __init__(self, stack, orders):
        self.stack, self.answers, self.wrong, self.pushes = stack, collections.Counter(), 0, 0
        self.secret = stack.secret()
        stack.start("gateway", "pusher")
        self.simulator = Simulator(stack.env["APNS_ADMIN_URL"])
        self.await_pusher()
        self.told = len(self.simulator.deliveries)
        self.connections = [Connection(stack.gateway_port) for _ in range(CONNECTIONS)]
        self.known = {order: self.fetch(self.connections[0], order)
                      for order in random.sample(orders, min(ORDERS, len(orders)))}
        self.visiting = Repeater(self.visit, RATE, CONNECTIONS)

    def await_pusher(self):
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"], "waybill-pusher")
        eventually("notifying devices of earlier changes", lambda: reader.lag("waybill.orders") == 0, 300, pause=1)
        reader.close()
        self.simulator.settle()

    def fetch(self, connection, order):
        """Returns the status of an answer and its version. A package that is made again has another entity tag."""
        token = derived_token(self.secret, f"{self.stack.type}/{order}")
        answer = connection.get(self.stack.path(order), showing(token))
        return answer.status, answer.headers.get("last-modified")

    def visit(self, number):
        order = random.choice(list(self.known))
        try:
            answer = self.fetch(self.connections[number], order)
        except OSError:
            self.wrong += 1
            self.connections[number] = Connection(self.stack.gateway_port)
            return
        self.answers[answer[0]] += 1
        self.wrong += answer[0] != 503 and answer != self.known[order]

    def end(self):
        """Stops watching, and stops the services."""
        self.visiting.stop()
        for connection in self.connections:
            connection.close()
        self.await_pusher()
        self.pushes = len(self.simulator.deliveries) - self.told
        self.simulator.close()
        self.stack.stop("gateway", "pusher")
