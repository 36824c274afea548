"""Checks that a package read after the publication of a version is that version or a newer one."""

import email.utils
import io
import itertools
import json
import time
import zipfile
from datetime import datetime

from client import Connection
from pace import Repeater
from stack import Failure
from subject import AUTHORIZATION
from topics import Reader

CONNECTIONS, CHANGES_A_SECOND = 4, 300


class Freshness:
    """
    Changes orders continuously, follows `waybill.orders`, and fetches each version as soon as its record arrives.

    Several connections reach all threads of the gateway; half of the requests name the previous version, which must not
    be answered with 304.
    """

    def __init__(self, stack, publisher, orders):
        self.stack, self.publisher, self.orders = stack, publisher, itertools.cycle(orders)
        self.seen, self.violations = 0, []
        self.connections = [Connection(stack.gateway_port) for _ in range(CONNECTIONS)]
        self.tags = {order: self.connections[0].get(stack.path(order), AUTHORIZATION).headers["etag"]
                     for order in orders}

    def change(self, _):
        self.publisher.send(next(self.orders), "patched", {"statusDescription": f"step {time.time_ns()}"})

    def run(self, seconds):
        """Returns the number of versions that were fetched; `violations` has the wrong answers."""
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"])
        reader.follow("waybill.orders")
        with Repeater(self.change, CHANGES_A_SECOND):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                message = reader.consumer.poll(0.5)
                if message is None or message.value() is None:
                    continue
                if message.error():
                    raise Failure(f"following waybill.orders: {message.error()}")
                self.look(message)
        reader.close()
        for connection in self.connections:
            connection.close()
        if self.seen == 0:
            raise Failure("no version was published while freshness was checked")
        return self.seen

    def look(self, message):
        order = message.key().decode().split("/")[1]
        known = self.tags.get(order)
        if known is None:
            return
        condition = [("if-none-match", known)]
        path = self.stack.path(order)
        for index, connection in enumerate(self.connections):
            connection.send(path, AUTHORIZATION + (condition if index % 2 else []))
        answers = [connection.receive() for connection in self.connections]
        record = json.loads(message.value())
        self.seen += 1
        for answer in answers:
            wrong = self.fault(answer, record["modified"])
            if wrong:
                self.violations.append(f"{order} version {record['version']}: {wrong}")
        self.tags[order] = answers[0].headers.get("etag", known)

    @staticmethod
    def stamp(answer):
        return email.utils.parsedate_to_datetime(answer.headers["last-modified"]).timestamp()

    @staticmethod
    def fault(answer, modified):
        """Returns a sentence about a wrong answer, None for a right one."""
        if answer.status == 304:
            # The request may name the published version, if that was fetched before its record arrived, or a newer one.
            return None if Freshness.stamp(answer) >= modified else "304 for an older version"
        if answer.status != 200:
            return f"status {answer.status}"
        if Freshness.stamp(answer) < modified:
            return "the headers are of an older version"
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            updated = json.loads(archive.read("order.json"))["updatedAt"]
        if datetime.fromisoformat(updated.replace("Z", "+00:00")).timestamp() < modified:
            return "the package is of an older version"
        return None
