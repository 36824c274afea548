"""The gateway and the pusher while Redis is restored: what no device may be answered, and none may be told."""

import collections
import random
import threading

from client import Connection
from simulator import Simulator
from stack import derived_token, eventually
from topics import Reader

ORDERS, CONNECTIONS = 400, 4
# Seconds between two requests on a connection.
PAUSE = 0.02


class Watch:
    """
    Devices that fetch some orders all the time.

    answers: their number by status. wrong: those that are neither 503 nor the package that was there before, and
    connections that end.
    """

    def __init__(self, stack, orders):
        self.stack, self.answers, self.wrong, self.pushes = stack, collections.Counter(), 0, 0
        self.secret, self.is_over = stack.secret(), threading.Event()
        stack.start("gateway", "pusher")
        self.simulator = Simulator(stack.env["APNS_ADMIN_URL"])
        self.await_pusher()
        self.told = len(self.simulator.deliveries)
        self.known, connection = {}, Connection(stack.gateway_port)
        for order in random.sample(orders, min(ORDERS, len(orders))):
            self.known[order] = self.fetch(connection, order)
        connection.close()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(CONNECTIONS)]
        for thread in self.threads:
            thread.start()

    def await_pusher(self):
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"], "waybill-pusher")
        eventually("telling what happened before", lambda: reader.lag("waybill.orders") == 0, 300, pause=1)
        reader.close()
        self.simulator.settle()

    def fetch(self, connection, order):
        """The status of an answer, and what tells its version."""
        token = derived_token(self.secret, f"{self.stack.type}/{order}")
        answer = connection.get(self.stack.path(order), [("authorization", f"AppleOrder {token}")])
        return answer.status, answer.headers.get("etag"), answer.headers.get("last-modified")

    def run(self):
        connection, orders = Connection(self.stack.gateway_port), list(self.known)
        try:
            while not self.is_over.wait(PAUSE):
                order = random.choice(orders)
                answer = self.fetch(connection, order)
                self.answers[answer[0]] += 1
                self.wrong += answer[0] != 503 and answer != self.known[order]
        except OSError:
            self.wrong += 1
        connection.close()

    def end(self):
        """Ends the services as well."""
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.await_pusher()
        self.pushes = len(self.simulator.deliveries) - self.told
        self.simulator.close()
        self.stack.stop("gateway", "pusher")
