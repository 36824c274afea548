"""How long a change takes from Kafka to APNs, with every service of the stack in between."""

import contextlib
import http.client
import json
import os
import subprocess
import time
import urllib.request

from latency import Latency, steadily
from peers import free_ports
from stack import Failure, Publisher, example

TOKEN = "waybill-bench-waybill-bench-0000"


def measure(stack, rate, seconds):
    """
    Changes one order after the other, each once, while a device of its own waits for each.

    The beginning is the moment before the record is handed to the producer, the end is when the simulator had the
    notification's last byte, by its own account.
    """
    document = example(stack.root) | {"authenticationToken": TOKEN}
    devices = {f"push-{number}": f"{number:064x}" for number in range(1, rate * seconds + 1)}
    Publisher(stack).replace_all({order: document | {"orderNumber": order} for order in devices})
    register(stack, devices)
    # A registration soon after a change is told as well.
    await_deliveries(stack, set(devices.values()))
    admin(stack, "DELETE")
    sent = {}
    publisher = Publisher(stack, {"linger.ms": 0})
    for order, kind, data in steadily(list(devices), rate, sent):
        publisher.send(order, kind, data)
    publisher.flush()
    told = await_deliveries(stack, set(devices.values()))
    # The simulator counts whole milliseconds, and each as the one that has begun.
    ages = [told[device] - sent[order] / 1e6 for order, device in devices.items()]
    if min(ages) < -1:
        raise Failure(f"a device was told {-min(ages):.0f} ms before its order's change was sent")
    return Latency(ages, f"{rate} changes/s for {seconds} s, from Kafka to the simulator: at most {max(ages):.0f} ms")


def register(stack, devices):
    connection = http.client.HTTPConnection("127.0.0.1", stack.gateway_port, timeout=10)
    for number, (order, token) in enumerate(devices.items()):
        path = f"/v1/devices/bench-device-{number}/registrations/{stack.type}/{order}"
        connection.request(
            "POST", path, json.dumps({"pushToken": token}),
            {"authorization": f"AppleOrder {TOKEN}", "content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (200, 201):
            raise Failure(f"registering answers {answer.status}")
    connection.close()


def await_deliveries(stack, devices, seconds=60):
    """When each device was told first, in milliseconds since 1970; returns when each has been."""
    deadline, told, last = time.monotonic() + seconds, {}, 0
    while devices - told.keys():
        if time.monotonic() > deadline:
            raise Failure(f"{len(devices - told.keys())} of {len(devices)} devices were not told within {seconds} s")
        answer = json.loads(admin(stack, "GET", f"?after={last}&wait=1"))
        last = answer["last"]
        if answer["dropped"]:
            raise Failure("the simulator forgot deliveries")
        for delivery in answer["deliveries"]:
            if delivery["status"] == 200:
                told.setdefault(delivery["token"], delivery["receivedEpochMilliseconds"])
    return told


def admin(stack, method, query=""):
    request = urllib.request.Request(f"{stack.env['APNS_ADMIN_URL']}/deliveries{query}", method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


@contextlib.contextmanager
def simulator(programs, certificates, folder, streams, milliseconds):
    """A simulator of its own that answers late; gives its port."""
    port = free_ports(1)[0]
    addresses = f"{folder}/apns.address"
    if os.path.exists(addresses):
        os.remove(addresses)
    with open(f"{folder}/apns.log", "ab") as log:
        process = subprocess.Popen(
            [f"{programs}/waybill-dev", "apns", "--certificates", certificates, "--port", str(port),
             "--delay-milliseconds", str(milliseconds), "--max-concurrent-streams", str(streams),
             "--address-file", addresses],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while not os.path.exists(addresses):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the simulator does not start, see {folder}/apns.log")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)
