"""A package that is read after its version was published must be that version or a newer one."""

import email.utils
import io
import json
import threading
import time
import zipfile
from datetime import datetime

from client import Connection
from stack import Failure
from topics import Reader

CONNECTIONS = 4


class Freshness:
    """
    Changes orders without a pause, follows `waybill.orders`, and fetches each version as soon as its record comes.

    Several connections reach all threads of the gateway; half of the requests name the version before, which must not
    be answered 304.
    """

    def __init__(self, stack, publisher, orders, authorization):
        self.stack, self.publisher, self.orders = stack, publisher, orders
        self.authorization, self.stopped = authorization, threading.Event()
        self.tags, self.seen, self.violations = {}, 0, []

    def change(self):
        """From a thread of its own: one order after the other, about 300 a second."""
        count = 0
        while not self.stopped.is_set():
            order = self.orders[count % len(self.orders)]
            self.publisher.send(order, "patched", {"statusDescription": f"step {count}"})
            count += 1
            time.sleep(1 / 300)

    def run(self, seconds):
        """Returns the number of versions that were fetched; `violations` tells what was wrong."""
        reader = Reader(self.stack.env["KAFKA_BOOTSTRAP"])
        reader.follow("waybill.orders")
        connections = [Connection(self.stack.gateway_port) for _ in range(CONNECTIONS)]
        for order in self.orders:
            self.tags[order] = connections[0].get(self.stack.path(order), self.authorization).headers["etag"]
        writer = threading.Thread(target=self.change)
        writer.start()
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                message = reader.consumer.poll(0.5)
                if message is None or message.value() is None:
                    continue
                if message.error():
                    raise Failure(f"following waybill.orders: {message.error()}")
                self.look(connections, message)
        finally:
            self.stopped.set()
            writer.join()
            reader.close()
            for connection in connections:
                connection.close()
        if self.seen == 0:
            raise Failure("no version was published while the freshness of answers was looked at")
        return self.seen

    def look(self, connections, message):
        order = message.key().decode().split("/")[1]
        known = self.tags.get(order)
        if known is None:
            return
        condition = [("if-none-match", known)]
        path = self.stack.path(order)
        for index, connection in enumerate(connections):
            connection.send(path, self.authorization + (condition if index % 2 else []))
        answers = [connection.receive() for connection in connections]
        record = json.loads(message.value())
        self.seen += 1
        for answer in answers:
            wrong = self.fault(answer, record["modified"], record["package"]["entityTag"] == known.strip('"'))
            if wrong:
                self.violations.append(f"{order} version {record['version']}: {wrong}")
        self.tags[order] = answers[0].headers.get("etag", known)

    @staticmethod
    def fault(answer, modified, was_known):
        """A sentence about a wrong answer; None if it is right."""
        if answer.status == 304:
            # Fetched before it was told, so the version that is named is the one that was published.
            stamp = answer.headers.get("last-modified")
            fresh = stamp and email.utils.parsedate_to_datetime(stamp).timestamp() >= modified
            return None if was_known or fresh else "304 for an older version"
        if answer.status != 200:
            return f"status {answer.status}"
        if email.utils.parsedate_to_datetime(answer.headers["last-modified"]).timestamp() < modified:
            return "the headers are of an older version"
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            updated = json.loads(archive.read("order.json"))["updatedAt"]
        if datetime.fromisoformat(updated.replace("Z", "+00:00")).timestamp() < modified:
            return "the package is of an older version"
        return None
