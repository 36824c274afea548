"""More and more brands: what each takes of the services' memory, and changes and fetches of all of them in turn."""

import shutil
import time
from pathlib import Path

from memory import PACKED
from processes import memory_mb, output_of
from subject import AUTHORIZATION, TOKEN
from topics import Publisher

X = "brands"
UNITS = {"packager": "kB a brand", "gateway": "kB a brand", "change": "µs of CPU", "fetch": "× the client's CPU"}
SIZES = (1, 10, 100, 500)
ORDERS = 4000
# With fewer, the memory of a brand is lost in that of the program.
LEAST = 100


def measure(bench):
    stack, crew = bench.stack, bench.crew
    types, alone = [stack.type], None
    for size in bench.sizes(SIZES):
        for number in range(len(types), size):
            types.append(f"order.com.example.brand{number}")
            copy_brand(stack, types[-1])
        orders = [f"{types[number % size]}/brands-{size}-{number}" for number in range(ORDERS)]
        worker = crew.start()
        stack.start("gateway")
        # What loading took is given back.
        time.sleep(3)
        memory = {"packager": worker.memory_mb("VmRSS"), "gateway": memory_mb(stack.pid("gateway"))}
        alone = alone or memory
        values = {}
        if size >= LEAST:
            values |= {name: (memory[name] - alone[name]) / (size - 1) * 1024 for name in memory}
        document = bench.documents.smallest()[1] | {"authenticationToken": TOKEN}
        publish(bench, orders, "replaced", lambda: document)
        # Each brand signs with each thread once before it counts.
        publish(bench, orders, "patched", changed)
        usage = bench.usage({"packager": [worker.pid]})
        publish(bench, orders, "patched", changed)
        values["change"] = usage.end().used["packager"] / ORDERS * 1e6
        values["fetch"] = bench.served([f"/v1/orders/{order}" for order in orders], AUTHORIZATION).cost
        crew.stop()
        stack.stop("gateway")
        yield size, values


def copy_brand(stack, order_type):
    """Copies the stack's own brand with its key, since making one takes longer than a certificate for it."""
    brand, authority = Path(stack.brand).with_name(order_type), Path(stack.env["ROOT_CA"]).parent
    shutil.copytree(stack.brand, brand)
    file = brand / "brand.json"
    file.write_text(file.read_text().replace(stack.type, order_type))
    output_of([
        "openssl", "req", "-new", "-x509", "-key", f"{brand}/key.pem", "-out", f"{brand}/certificate.pem",
        "-CA", f"{authority}/intermediate.pem", "-CAkey", f"{authority}/intermediate-key.pem",
        "-subj", f"/UID={order_type}/CN={order_type}/OU=TEAM123456", "-days", "30",
        "-addext", "extendedKeyUsage=clientAuth,1.2.840.113635.100.4.19"])


def publish(bench, orders, kind, data):
    """Returns when a change of each order is packaged."""
    publisher = Publisher(bench.stack, PACKED)
    for order in orders:
        publisher.send_event(order, f"waybill.order.{kind}", data())
    publisher.flush()
    bench.crew.published += publisher.count
    bench.crew.await_done()


def changed():
    return {"statusDescription": f"changed at {time.time_ns()}"}
