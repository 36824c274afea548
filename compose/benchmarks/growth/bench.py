"""What should cost the same, however many there are: orders, connections, devices, changes."""

import os

from growth import changes, connections, devices, orders, page
from load import Load
from processes import start_broker
from stack import Failure, eventually
from topics import CHANGES, Publisher
from workers import CrewBench

# In this order: orders come late, because with them everything takes longer. Each has X, what is counted; UNITS, the
# unit of each line by name; and `measure`, which yields a number of them and the values by line.
SERIES = {"connections": connections, "devices": devices, "changes": changes, "orders": orders}
# A partition of the embedded broker keeps 5 MiB.
ORDERS_A_PARTITION = 1000
CONNECTIONS = 64
SECONDS = 4


class GrowthBench(CrewBench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        if not os.path.isdir(os.path.dirname(os.path.abspath(arguments.svg))):
            raise Failure(f"--svg {arguments.svg}: must be a file in a folder that exists")
        self.load = Load(self.folder, CONNECTIONS, SECONDS)
        self.ending.callback(self.load.stop)

    def set_up(self):
        # Idle connections are closed sooner when more than half of the limit is open.
        os.environ |= {"WAYBILL_CONNECTION_LIMIT": "60000", "WAYBILL_DEVICES_PER_ORDER": "1000"}
        count = max(orders.sizes(self.arguments)) // ORDERS_A_PARTITION
        topics = {CHANGES: count, "waybill.orders": count, "waybill.registrations": 64, "waybill.push-pending": 16,
                  "waybill.dead-letters": 16}
        broker, address = start_broker(self.folder, "kafka", topics)
        self.ending.callback(broker.stop)
        super().set_up("--kafka", address, kafka_properties="fetch.wait.max.ms=5\n")
        # Saving to disk takes memory and processor time in bursts.
        self.stack.redis.ask("CONFIG", "SET", "appendonly", "no")

    def measure(self):
        panels = []
        for name in self.arguments.only or SERIES:
            series = SERIES[name]
            lines = {line: [] for line in series.UNITS}
            for count, values in series.measure(self):
                for line, value in values.items():
                    lines[line].append((count, value))
            self.crew.stop()
            self.tell(name, series, lines)
            panels.append((series, lines))
        with open(self.arguments.svg, "w") as file:
            file.write(page.svg(panels))
        self.report.note(f"plot: {os.path.abspath(self.arguments.svg)}")

    def tell(self, name, series, lines):
        for line, points in lines.items():
            low, high = points[0][1], points[-1][1]
            text = ", ".join(f"{value:.4g}" for _, value in points)
            self.report.figure(f"growth.{name}.{line}", high / low, most=page.LIMIT, note=(
                f"{text} {series.UNITS[line]} with {', '.join(f'{count:,}' for count, _ in points)} {series.X}"))

    # --- what several series need ------------------------------------------------------------------------------------

    def replace_with_example(self, orders, token=None):
        """Publishes the example order under these identifiers, and returns when each order has a package."""
        publisher = Publisher(self.stack)
        publisher.replace_with_example(orders, token)
        self.crew.published += publisher.count

    def gateway(self):
        """The processes that serve a device, as Load needs them."""
        return self.stack.pids("gateway", "redis")

    def served(self, paths, headers=(), status=200, rate=None):
        """Returns a round of requests, with the processor time of gateway and Redis together as its cost."""
        result = self.load.run(self.stack.gateway_port, paths, headers, self.gateway(), status, rate)
        result.cost = sum(result.shares[name] for name in self.gateway()) / result.rate
        return result

    def await_restored(self):
        self.crew.await_all(
            lambda: self.stack.redis.ask("EXISTS", "waybill:1:view:epoch"), "restoring", 600, 0.05)

    def await_all_told(self, reader):
        """Waits until the pusher is done with all versions of orders."""
        eventually(
            lambda: f"notifying devices: {reader.lag('waybill.orders')} records are left",
            lambda: reader.lag("waybill.orders") <= 0, 300, 0.1)
