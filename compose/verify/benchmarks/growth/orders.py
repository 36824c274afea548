"""Redis with more and more orders: serving them, listing those of a device, restoring them all."""

import itertools
import json
import random
import time
import urllib.parse

from client import Connection
from devices import Device, Registrar
from memory import PACKED
from report import percentile
from stack import Failure
from subject import AUTHORIZATION, TOKEN
from topics import ORDERS, Producer

X = "orders"
UNITS = {
    "memory": "kB an order", "fetch": "× the client's CPU", "fetch_p50": "ms", "list": "× the client's CPU",
    "restore": "µs of CPU an order"}
SIZES = (10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
# With fewer, what a restore costs for each order is lost in what it costs for each partition.
LEAST = 100_000
# Orders that are fetched at one size, and fetches a second while their latency is measured.
FETCHED, RATE = 2000, 1000
# Devices that list their orders, of which one has changed.
DEVICES, ORDERS_A_DEVICE = 100, 4
# Orders whose records all others have, under their own names.
MODELS = 5


def measure(bench):
    stack, crew, lot = bench.stack, bench.crew, random.Random(7)
    crew.start(settings={"WAYBILL_PACKAGE": "followed"})
    stack.start("gateway")
    devices = [Device(10 ** 9 + number, [f"{stack.type}/listed-{number}-{order}" for order in range(ORDERS_A_DEVICE)])
               for number in range(DEVICES)]
    bench.replace_with_example([order.split("/")[1] for device in devices for order in device.orders])
    registrar = Registrar(stack)
    registrar.register(devices)
    registrar.close()
    models = publish_models(bench)
    # That of the partitions.
    alone = restore(bench)
    before, made = stack.redis.used_memory(), MODELS
    for size in bench.sizes(SIZES):
        publish_records(stack, models, range(made + 1, size + 1))
        made = size
        used = restore(bench) - alone
        crew.require_complete(ORDERS)
        values = {"memory": (stack.redis.used_memory() - before) / size / 1000}
        paths = [stack.path(name_of(number)) for number in lot.sample(range(1, size + 1), FETCHED)]
        await_packages(stack, paths)
        values["fetch"] = bench.served(paths, AUTHORIZATION).cost
        values["fetch_p50"] = percentile(bench.served(paths, AUTHORIZATION, rate=RATE).latencies, 0.5)
        values["list"] = bench.served(listings(stack, crew, devices)).cost
        if size >= LEAST:
            values["restore"] = used / size * 1e6
        yield size, values
    stack.stop("gateway")


def publish_models(bench):
    """Returns the records of the first orders, as packagers write them, by name."""
    crew, documents = bench.crew, {}
    for number in range(1, MODELS + 1):
        name, (_, document) = name_of(number), bench.documents.next()
        documents[name] = document | {"orderNumber": name, "authenticationToken": TOKEN}
    crew.publish((name, "replaced", document) for name, document in documents.items())
    crew.await_done()
    records = {key: value for key, value, _ in crew.reader.records(ORDERS)}
    return {name: records[f"{bench.stack.type}/{name}"] for name in documents}


def name_of(number):
    return f"orders-{number}"


def publish_records(stack, models, numbers):
    """Publishes a record of each order, as packagers do after its first change."""
    producer = Producer(stack.env["KAFKA_BOOTSTRAP"], PACKED | {"partitioner": "murmur2_random"})
    for number, (model, record) in zip(numbers, itertools.cycle(models.items())):
        name = name_of(number)
        producer.put(ORDERS, f"{stack.type}/{name}", record.replace(f'"{model}"'.encode(), f'"{name}"'.encode()))
    producer.flush()


def await_packages(stack, paths):
    """Fetches orders for the first time since they were restored: a packager makes their packages meanwhile."""
    connection = Connection(stack.gateway_port)
    for path in paths:
        answer = connection.get(path, AUTHORIZATION)
        if answer.status != 200:
            raise Failure(f"{path}: status {answer.status} {answer.body[:200]}")
    connection.close()


def restore(bench):
    """Empties Redis, and returns the packager's processor time in seconds until all is back."""
    usage = bench.usage({"packager": bench.crew.pids()})
    # Beside its commands: millions of keys take seconds.
    bench.stack.redis.ask("FLUSHALL", "ASYNC")
    bench.crew.await_view(1800)
    return usage.end().used["packager"]


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
