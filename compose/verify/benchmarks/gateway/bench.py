"""The gateway beside its peers."""

import functools
import os
import statistics

from client import Connection
from gateway import idle
from gateway.freshness import Freshness
from gateway.peers import Peers
from load import Load
from orders import add_picture, add_pictures, example
from processes import memory_mb
from report import median_cost, median_rate, median_ratio, percentile, take_turns
from stack import Failure
from subject import AUTHORIZATION, TOKEN, Bench
from topics import Publisher

ORDERS = 2000
# Of the orders for which Redis' memory is measured: bytes of all pictures of an order together, and their number in the
# figure, a logo and five products, and in the note. Each product is a line item, so more pictures make larger orders.
SHARED_BYTES, SHARED_PICTURES, MORE_PICTURES = 300_000, 6, 10


class GatewayBench(Bench):
    def __init__(self, arguments, stack):
        super().__init__(arguments, stack)
        self.load = Load(self.folder, arguments.connections, arguments.seconds)
        self.ending.callback(self.load.stop)
        self.peers = Peers(stack, self.folder)
        self.orders = [f"bench-{number}" for number in range(ORDERS)]

    def measure(self):
        self.publisher = Publisher(self.stack)
        self.paths = [self.stack.path(order) for order in self.orders]
        self.add_assets()
        self.measure_orders()
        since = self.prepare_peers()
        self.measure_rates(since)
        self.measure_waiting()
        self.measure_freshness()
        self.measure_connections()

    # --- orders and peers --------------------------------------------------------------------------------------------

    def add_assets(self):
        add_pictures(self.stack.brand)
        for count in (SHARED_PICTURES, MORE_PICTURES):
            for number in range(count):
                add_picture(self.stack.brand, f"bench-{count}-{number}.png", SHARED_BYTES // count)
        self.stack.restart("packager")

    def documents(self, orders, logo, images):
        for order in orders:
            document = example() | {"orderNumber": order, "authenticationToken": TOKEN}
            document["merchant"]["logo"] = logo
            items = document["lineItems"]
            while len(items) < len(images):
                items.append(dict(items[0], sku=f"SKU-{len(items)}"))
            for item, image in zip(items, images):
                item["image"] = image
            yield order, document

    def measure_orders(self):
        """Measures Redis' memory for an order, with its part of the shared assets."""
        kilobytes = {}
        for count in (SHARED_PICTURES, MORE_PICTURES):
            pictures = [f"bench-{count}-{number}.png" for number in range(count)]
            orders = [f"shared-{count}-{number}" for number in range(ORDERS)]
            before = self.stack.redis.used_memory()
            self.publisher.replace_all(dict(self.documents(orders, pictures[0], pictures[1:])))
            kilobytes[count] = (self.stack.redis.used_memory() - before) / ORDERS / 1000
        self.report.figure("redis.kb_per_order", kilobytes[SHARED_PICTURES], most=12)
        more = kilobytes[MORE_PICTURES]
        self.report.note(f"with {MORE_PICTURES} pictures and line items an order takes {more:.1f} kB")
        self.publisher.replace_all(dict(self.documents(self.orders, "bench-a.png", ["bench-b.png"])))

    def prepare_peers(self):
        """Saves all packages for the peers and starts them. Returns the latest Last-Modified of the packages."""
        connection = Connection(self.stack.gateway_port)
        latest = ("", 0.0)
        for order, path in zip(self.orders, self.paths):
            response = connection.get(path, AUTHORIZATION)
            if response.status != 200:
                raise Failure(f"{path}: {response.status}")
            self.peers.save(order, response)
            file = os.stat(f"{self.folder}/static{path}")
            latest = max(latest, (response.headers["last-modified"], file.st_mtime), key=lambda pair: pair[1])
        connection.close()
        self.report.note(f"{ORDERS} orders, packages of {len(response.body)} bytes")
        self.ending.callback(self.peers.start(response.headers).stop)
        self.peers.check(self.orders[:: ORDERS // 20])
        return latest[0]

    # --- measurements ------------------------------------------------------------------------------------------------

    def measure_rates(self, since):
        gateway = self.stack.pids("gateway", "redis")
        lua = {"nginx": self.peers.workers()} | self.stack.pids("redis")
        static = {"nginx": self.peers.workers()}
        condition = AUTHORIZATION + [("if-modified-since", since)]
        port = self.stack.gateway_port
        loads = {
            "GET gateway": (port, AUTHORIZATION, gateway, 200),
            "GET nginx+Lua": (self.peers.lua_port, AUTHORIZATION, lua, 200),
            "GET nginx static": (self.peers.static_port, AUTHORIZATION, static, 200),
            "304 gateway": (port, condition, gateway, 304),
            "304 nginx+Lua": (self.peers.lua_port, condition, lua, 304),
        }

        results = take_turns(self.arguments.rounds, {
            name: functools.partial(self.load.run, where, self.paths, headers, pids, status)
            for name, (where, headers, pids, status) in loads.items()})
        for name, rounds in results.items():
            self.report.rate(name, rounds)
        rates = {name: [result.rate for result in rounds] for name, rounds in results.items()}

        def ratio(ours, theirs):
            return median_ratio(rates[ours], rates[theirs])

        self.maximum = median_rate(results["GET gateway"])
        cost = median_cost(results["GET gateway"])
        self.report.figure("gateway.ratio_lua", ratio("GET gateway", "GET nginx+Lua"), least=1.5)
        self.report.figure("gateway.ratio_static", ratio("GET gateway", "GET nginx static"), least=0.35)
        self.report.figure("gateway.ratio_304_lua", ratio("304 gateway", "304 nginx+Lua"), least=1.5)
        self.report.figure("gateway.get_per_second", self.maximum)
        self.report.figure("gateway.cpu_us_per_get", cost * 1e6)

    def measure_waiting(self):
        pids = self.stack.pids("gateway", "redis")
        rounds = [
            self.load.run(self.stack.gateway_port, self.paths, AUTHORIZATION, pids, 200, rate=self.maximum / 2)
            for _ in range(3)
        ]
        reached = median_rate(rounds)
        if reached < 0.9 * self.maximum / 2:
            self.report.note(f"half load is {self.maximum / 2:.0f}/s, but only {reached:.0f}/s was reached")
        for part, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p999")):
            value = statistics.median(percentile(result.latencies, part) for result in rounds)
            self.report.figure(f"gateway.{name}_ms_half_load", value, most=5 if name == "p99" else None)

    def measure_freshness(self):
        check = Freshness(self.stack, self.publisher, self.orders[:100])
        seen = check.run(self.arguments.seconds * 3)
        self.report.note(f"freshness: {seen} versions, each fetched four times on publication")
        for violation in check.violations[:5]:
            self.report.note(f"stale: {violation}")
        self.report.figure("gateway.stale", len(check.violations), most=0)

    def measure_connections(self):
        loaded = memory_mb(self.stack.pid("gateway"))
        started, warm, untouched, used = idle.measure(self.stack, self.paths[0])
        self.report.note(
            f"gateway memory: {started:.0f} MB idle, {warm:.0f} MB warmed up, {loaded:.0f} MB after the load above; "
            f"a connection {untouched:.1f} kB untouched, {used:.1f} kB after a request")
        self.report.figure("gateway.idle_connection_kb", max(untouched, used), most=20)
        self.report.figure("gateway.rss_mb", started, most=64)
