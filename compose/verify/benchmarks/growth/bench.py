"""What should cost the same, however many there are: orders, connections, brands, sources, devices, changes."""

import os

from growth import brands, changes, connections, devices, orders, page, sources
from growth.yardstick import SteadyUsage, Yardstick
from load import Load
from processes import start_broker
from stack import Failure, eventually
from topics import CHANGES, ORDERS, Publisher
from workers import CrewBench

# In this order: orders come late, because with them everything takes longer. Each has X, what is counted; UNITS, the
# unit of each line by name; and `measure`, which yields a number of them and the values by line.
SERIES = {"connections": connections, "sources": sources, "devices": devices, "changes": changes, "orders": orders,
          "brands": brands}
# A partition of the embedded broker keeps 5 MiB, in memory. Orders that are alike take a tenth of that.
ORDERS_A_PARTITION = 10_000
# Asking for records again and again costs the more, the longer other work takes.
PROPERTIES = "fetch.wait.max.ms=20\ncompression.type=lz4\n"
CONNECTIONS = 64
SECONDS = 4


class GrowthBench(CrewBench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        if not os.path.isdir(os.path.dirname(os.path.abspath(arguments.svg))):
            raise Failure(f"--svg {arguments.svg}: must be a file in a folder that exists")
        self.load = Load(self.folder, CONNECTIONS, SECONDS)
        self.ending.callback(self.load.stop)
        self.yardstick = Yardstick()
        self.ending.callback(self.yardstick.stop)

    def set_up(self):
        # Idle connections are closed sooner when more than half of the limit is open.
        os.environ |= {"WAYBILL_CONNECTION_LIMIT": "60000", "WAYBILL_DEVICES_PER_ORDER": "1000"}
        count = max(64, self.arguments.most // ORDERS_A_PARTITION)
        topics = {CHANGES: 64, ORDERS: count, "waybill.registrations": 64, "waybill.push-pending": 16,
                  "waybill.dead-letters": 16}
        broker, address = start_broker(self.folder, "kafka", topics)
        self.ending.callback(broker.stop)
        super().set_up("--kafka", address, kafka_properties=PROPERTIES)
        # Saving to disk takes memory and processor time in bursts.
        self.stack.redis.ask("CONFIG", "SET", "appendonly", "no")

    def measure(self):
        panels = []
        for name in self.arguments.only or SERIES:
            series = SERIES[name]
            lines = {}
            for count, values in series.measure(self):
                for line, value in values.items():
                    lines.setdefault(line, []).append((count, value))
            self.crew.stop()
            self.tell(name, series, lines)
            panels.append((series, lines))
            # After each, since all of them take an hour.
            with open(self.arguments.svg, "w") as file:
                file.write(page.svg(panels))
        self.report.note(f"plot: {os.path.abspath(self.arguments.svg)}")

    def tell(self, name, series, lines):
        for line, points in lines.items():
            low, high = points[0][1], points[-1][1]
            text = ", ".join(f"{value:.4g}" for _, value in points)
            self.report.figure(f"growth.{name}.{line}", high / low, most=page.LIMIT, note=(
                f"{text} {series.UNITS[line]} with {', '.join(f'{count:,}' for count, _ in points)} {series.X}"))

    def sizes(self, sizes):
        return [size for size in sizes if size <= self.arguments.most]

    # --- what several series need ------------------------------------------------------------------------------------

    def replace_with_example(self, orders, token=None):
        """Publishes the example order under these identifiers, and returns when each order has a package."""
        publisher = Publisher(self.stack)
        publisher.replace_with_example(orders, token)
        self.crew.published += publisher.count

    def gateway(self):
        """The processes that serve a device, as Load needs them."""
        return self.stack.pids("gateway", "redis")

    def usage(self, who):
        return SteadyUsage(self.yardstick, who)

    def served(self, paths, headers=(), status=200, rate=None):
        """
        Returns a round of requests. Its cost is the processor time of gateway and Redis together as a multiple of the
        client's, which is the same for each request and grows alike on a busy machine.
        """
        result = self.load.run(self.stack.gateway_port, paths, headers, self.gateway(), status, rate)
        result.cost = sum(result.shares[name] for name in self.gateway()) / result.shares["h2load"]
        return result

    def await_all_told(self, reader):
        """Waits until the pusher is done with all versions of orders."""
        eventually(
            lambda: f"notifying devices: {reader.lag('waybill.orders')} records are left",
            lambda: reader.lag(ORDERS) <= 0, 300, 0.1)
