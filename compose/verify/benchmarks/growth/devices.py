"""Orders with more and more devices: registering them, and notifying them of a version."""

from devices import Device, Registrar
from simulator import first_told, tell
from topics import Offsets, Producer

X = "devices of an order"
UNITS = {"memory": "kB a registration", "registration": "µs of CPU", "notification": "µs of CPU"}
SIZES = (1, 10, 100, 1000)
# Registrations at each size, of as many devices.
COUNT = 8000


def measure(bench):
    stack, made = bench.stack, 0
    stack.start("packager", "gateway")
    offsets = Offsets(stack)
    for size in bench.sizes(SIZES):
        orders = [f"devices-{size}-{number}" for number in range(COUNT // size)]
        bench.replace_with_example(orders)
        devices = [Device(made + number, [f"{stack.type}/{orders[number // size]}"]) for number in range(COUNT)]
        made += COUNT
        before, usage = stack.redis.used_memory(), bench.usage(bench.gateway())
        registrar = Registrar(stack)
        registrar.register(devices)
        registrar.close()
        used = usage.end().used
        values = {"memory": (stack.redis.used_memory() - before) / COUNT / 1000,
                  "registration": sum(used[name] for name in bench.gateway()) / COUNT * 1e6}
        values["notification"] = notify(bench, orders, devices, offsets) / COUNT * 1e6
        yield size, values
    offsets.close()
    stack.stop("packager", "gateway", "pusher")


def notify(bench, orders, devices, offsets):
    """Returns the pusher's processor time in seconds for one version of each order."""
    stack = bench.stack
    apns, tokens = stack.env["APNS_ADMIN_URL"], [device.push_token for device in devices]
    stack.start("pusher")
    # A registration soon after a version also causes a notification.
    first_told(apns, tokens)
    bench.await_all_told(offsets)
    tell(apns, "/deliveries", "DELETE")
    producer = Producer(stack.env["KAFKA_BOOTSTRAP"], {"partitioner": "murmur2_random", "linger.ms": 100})
    usage = bench.usage({"pusher": [stack.pid("pusher")]})
    for order in orders:
        producer.put("waybill.orders", f"{stack.type}/{order}", b"{}")
    producer.flush()
    first_told(apns, tokens)
    bench.await_all_told(offsets)
    seconds = usage.end().used["pusher"]
    stack.stop("pusher")
    return seconds
