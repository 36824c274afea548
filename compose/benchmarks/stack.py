"""The stack that is measured: its addresses, its processes, and orders published into it."""

import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import time
import zlib

import confluent_kafka

TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """Why nothing can be measured, in a sentence."""


def derived_token(secret, key):
    """The token of an order, as packagers and checkouts derive it."""
    return hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()[:32]


def edit_command(folder, service, old, new):
    """Changes the command that starts a service of a stack."""
    path = f"{folder}/run/{service}.command"
    with open(path) as file:
        command = file.read()
    if old not in command:
        raise Failure(f"{path} does not have '{old}'")
    with open(path, "w") as file:
        file.write(command.replace(old, new, 1))


class Stack:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        with open(f"{folder}/stack.env") as file:
            self.env = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
        self.type = self.env["ORDER_TYPE"]
        self.gateway_port = int(self.env["GATEWAY_URL"].rsplit(":", 1)[1])
        self.redis_port = int(self.env["REDIS_URL"].rsplit(":", 1)[1].split("/")[0])
        self.redis = Redis(self.redis_port)

    def pid(self, service):
        with open(f"{self.folder}/run/{service}.pid") as file:
            return int(file.read())

    def restart(self, service):
        self.stop(service)
        self.start(service)

    def start(self, service):
        self._compose("start", service)

    def stop(self, service):
        self._compose("stop", service)

    def _compose(self, verb, service):
        subprocess.run(
            [f"{self.root}/compose/stack", verb, service, "--dir", self.folder], check=True, stdin=subprocess.DEVNULL,
            stdout=sys.stderr)

    def path(self, order):
        return f"/v1/orders/{self.type}/{order}"


class Redis:
    """As much of a client as asking questions needs."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        self.send(*words)
        return self.reply()

    def send(self, *words):
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self.socket.sendall((f"*{len(words)}\r\n" + "".join(parts)).encode())

    def reply(self, binary=False):
        """binary: strings come as the bytes that they are."""
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            text = None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
            return text if binary or text is None else text.decode(errors="replace")
        if kind == b"*":
            return [self.reply(binary) for _ in range(int(rest))]
        if kind == b"-":
            raise Failure(f"Redis answers {rest.decode()}")
        return rest.decode()

    def used_memory(self):
        """What the allocator gave out, in bytes, once that stands still."""
        last = -1
        while True:
            memory = self.ask("INFO", "memory")
            used = int(next(line for line in memory.splitlines() if line.startswith("used_memory:")).split(":")[1])
            if abs(used - last) < 64 << 10:
                return used
            last = used
            time.sleep(0.5)


# --- orders --------------------------------------------------------------------------------------------------------


def example(root):
    """An example order without any picture or document, to which the caller adds its own."""

    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in ("image", "receipt", "returnLabel")}
        return [strip(v) for v in value] if isinstance(value, list) else value

    with open(f"{root}/Shared/Model/Schemas/examples/01-shipping-multi-fulfillment.order.json") as file:
        order = strip(json.load(file))
    owned = ("schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "webServiceURL", "updatedAt")
    for name in owned + ("authenticationToken",):
        order.pop(name, None)
    return order


def picture(size):
    """A PNG of about that many bytes: noise, so that it cannot be packed any smaller."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    width = max(1, int((size / 3) ** 0.5))
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(width))
    header = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Publisher:
    """Puts changes on `waybill.order-changes` and tells when they stand in Redis.

    late: seconds by which the clock of the records' timestamps is slow.
    """

    def __init__(self, stack, settings=None, late=0):
        self.stack, self.failed, self.count, self.late = stack, [], 0, late
        self.producer = confluent_kafka.Producer({
            "bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"], "linger.ms": 2, "message.timeout.ms": 30000,
            "socket.nagle.disable": True,
        } | (settings or {}))

    def send(self, order, kind, data):
        self.send_event(f"{self.stack.type}/{order}", f"waybill.order.{kind}", data)

    def send_event(self, key, kind, data):
        self.count += 1
        event = {
            "specversion": "1.0", "type": kind, "source": "/waybill/bench",
            "id": f"{time.time_ns()}-{self.count}", "subject": key, "datacontenttype": "application/json", "data": data,
        }
        value = json.dumps(event)
        while not self.produce(key, value):
            self.producer.poll(0.1)
        self.producer.poll(0)

    def produce(self, key, value):
        """Returns whether there was room for it."""
        try:
            self.producer.produce(
                "waybill.order-changes", key=key, value=value, timestamp=int((time.time() - self.late) * 1000),
                headers={"content-type": "application/cloudevents+json"},
                on_delivery=lambda error, _: error and self.failed.append(str(error)))
            return True
        except BufferError:
            return False

    def flush(self):
        if self.producer.flush(30) or self.failed:
            raise Failure(f"publishing orders: {self.failed[:1] or 'no answer in 30 s'}")

    def replace_all(self, orders):
        """Publishes documents by order identifier, and returns once each has a package."""
        for order, document in orders.items():
            self.send(order, "replaced", document)
        self.flush()
        deadline = time.monotonic() + 120
        waiting = list(orders)
        while waiting:
            for order in waiting:
                self.stack.redis.send("HEXISTS", f"waybill:order:{{{self.stack.type}/{order}}}", "head")
            waiting = [order for order in waiting if self.stack.redis.reply() == 0]
            if time.monotonic() > deadline:
                raise Failure(f"{len(waiting)} of {len(orders)} orders have no package after 120 s")
            time.sleep(0.1)


# --- processes -----------------------------------------------------------------------------------------------------


def cpu_seconds(*pids):
    """What processes have used so far, in their own code and in the kernel for them."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def machine_seconds():
    """What all processors of the machine have worked so far, for whomever."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS:")).split()[1])
