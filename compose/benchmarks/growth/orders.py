"""Redis with more and more orders: serving them, listing those of a device, restoring them all."""

import json
import random
import time
import urllib.parse

from client import Connection
from devices import Device, Registrar
from processes import Usage
from report import percentile
from stack import Failure
from subject import AUTHORIZATION, TOKEN

X = "orders"
UNITS = {
    "memory": "kB an order", "fetch": "µs of CPU", "fetch_p50": "ms", "list": "µs of CPU",
    "restore": "µs of CPU an order"}
SIZES = (10_000, 50_000, 100_000, 200_000)
MORE_SIZES = (500_000, 1_000_000, 2_000_000)
# Orders that are fetched at one size, and fetches a second while their latency is measured.
FETCHED, RATE = 2000, 1000
# Devices that list their orders, of which one has changed.
DEVICES, ORDERS_A_DEVICE = 100, 4


def sizes(arguments):
    return SIZES + (MORE_SIZES if arguments.full else ())


def measure(bench):
    stack, crew, lot = bench.stack, bench.crew, random.Random(7)
    crew.start()
    stack.start("gateway")
    devices = [Device(10 ** 9 + number, [f"{stack.type}/listed-{number}-{order}" for order in range(ORDERS_A_DEVICE)])
               for number in range(DEVICES)]
    bench.replace_with_example([order.split("/")[1] for device in devices for order in device.orders])
    registrar = Registrar(stack)
    registrar.register(devices)
    registrar.close()
    before, made = stack.redis.used_memory(), []
    for size in sizes(bench.arguments):
        more = list(bench.documents.next_changes(size - len(made)))
        crew.publish((order, kind, document | {"authenticationToken": TOKEN}) for order, kind, document in more)
        crew.await_done(60 + len(more) / 500)
        made += [order for order, _, _ in more]
        values = {"memory": (stack.redis.used_memory() - before) / size / 1000}
        paths = [stack.path(order) for order in lot.sample(made, FETCHED)]
        values["fetch"] = bench.served(paths, AUTHORIZATION).cost * 1e6
        values["fetch_p50"] = percentile(bench.served(paths, AUTHORIZATION, rate=RATE).latencies, 0.5)
        values["list"] = bench.served(listings(stack, crew, devices)).cost * 1e6
        usage = Usage({"packager": crew.pids()})
        stack.redis.ask("FLUSHALL")
        bench.await_restored()
        values["restore"] = usage.end().used["packager"] / size * 1e6
        yield size, values
    stack.stop("gateway")


def listings(stack, crew, devices):
    """Returns the paths of lists that have one order each, which changed since the tag."""
    connection, paths = Connection(stack.gateway_port), []
    for device in devices:
        path = f"/v1/devices/{device.name}/registrations/{stack.type}"
        answer = connection.get(path)
        if answer.status != 200:
            raise Failure(f"{path}: status {answer.status}")
        tag = json.loads(answer.body)["lastModified"]
        paths.append(f"{path}?ordersModifiedSince={urllib.parse.quote(tag)}")
    crew.publish((device.orders[0].split("/")[1], "patched", {"statusDescription": f"changed at {time.time_ns()}"})
                 for device in devices)
    crew.await_done()
    connection.close()
    return paths
